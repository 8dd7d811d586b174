import "../features";
import "../features/comparison";
import "../features/still";
import { afterEach } from "vitest";
import { choices } from "../controls/choices";

const FRESH = { ...choices };

// Test files share modules, which keep a reader's choices.
afterEach(() => {
  Object.assign(choices, FRESH);
});
