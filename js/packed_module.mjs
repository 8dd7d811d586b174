import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";

/**
 * Packs a module into a small one that unpacks it. Every widget carries the text, into the page and into every saved
 * notebook, and every cell that runs again brings another copy, which a page never forgets. So it travels compressed, and
 * only the first copy in a page is unpacked and compiled; later ones use it.
 *
 * The module's own address stays valid as long as the page is open: a worker starts from it. Copies are the same only if
 * their text is: two versions of gradwalk in one page keep apart. A copy that failed does not keep a later one from trying.
 */
export function packedModule(text) {
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 16);
  const packed = gzipSync(text, { level: 9 }).toString("base64");
  return `const key=Symbol.for("gradwalk/${hash}");
async function unpack(packed){
const bytes=Uint8Array.from(atob(packed),(letter)=>letter.charCodeAt(0));
const stream=new Response(bytes).body.pipeThrough(new DecompressionStream("gzip"));
const text=await new Response(stream).text();
return(await import(URL.createObjectURL(new Blob([text],{type:"text/javascript"})))).default}
export default()=>globalThis[key]??=unpack("${packed}").catch((error)=>{delete globalThis[key];throw error});
`;
}
