import type { LiveProgram } from "./live_program";

/** A link holds no tensor of more numbers than an image has. */
const MOST = 28 * 28;

/** The numbers that differ from the recorded ones, as the fragment of a link: "#w=2&b=1,0.5". */
export function fragmentOf(program: LiveProgram): string {
  return program.inputs
    .filter((input) => program.hasName(input) && !program.isStart(input))
    .filter((input) => program.read(input).length <= MOST)
    .map((input) => `${encodeURIComponent(program.nameOf(input))}=${program.read(input).join(",")}`)
    .join("&");
}

/** Set the numbers of a link's fragment; parts that fit no input are left. Returns whether any did. */
export function takeFragment(program: LiveProgram, fragment: string): boolean {
  let found = false;
  for (const part of fragment.replace(/^#/, "").split("&")) {
    const [name, text = ""] = part.split("=");
    const numbers = text.split(",").map(Number);
    const input = program.inputs.find((one) => program.nameOf(one) === decoded(name));
    if (!input || text === "" || numbers.some((one) => !Number.isFinite(one))) continue;
    if (numbers.length !== program.read(input).length) continue;
    program.write(input, numbers);
    found = true;
  }
  return found;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
