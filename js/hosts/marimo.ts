import { type Host, named } from "./host";

export const marimo = {
  marks: [
    { on: "body", attribute: "data-theme", theme: named },
    { on: "html", attribute: "data-theme", theme: named },
  ],
} satisfies Host;
