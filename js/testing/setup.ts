import { afterEach } from "vitest";
import { choices } from "../controls/choices";

const FRESH = { ...choices };

// Files of tests share the modules that they import, and this is what a reader's choices leave in one.
afterEach(() => {
  Object.assign(choices, FRESH);
});
