import { type Host, named } from "./host";

export const colab = {
  marks: [{ on: "html", attribute: "theme", theme: named }],
} satisfies Host;
