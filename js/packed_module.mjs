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
  const bytes = gzipSync(text, { level: 9 });
  return `const key=Symbol.for("gradwalk/${hash}");
async function unpack(packed){
const digits=new Map([...${JSON.stringify(LETTERS)}].map((letter,digit)=>[letter,digit]));
const bytes=new Uint8Array(packed.length/5*4);
for(let from=0,to=0;from<packed.length;from+=5){
let word=0;for(let i=0;i<5;i++)word=word*85+digits.get(packed[from+i]);
for(let i=24;i>=0;i-=8)bytes[to++]=word>>>i}
const stream=new Response(bytes.subarray(0,${bytes.length})).body.pipeThrough(new DecompressionStream("gzip"));
const text=await new Response(stream).text();
return(await import(URL.createObjectURL(new Blob([text],{type:"text/javascript"})))).default}
export default()=>globalThis[key]??=unpack("${inBase85(bytes)}").catch((error)=>{delete globalThis[key];throw error});
`;
}

/** 85 letters that JSON, HTML and JavaScript leave alone: four bytes are five of them, where base64 needs 5.3. */
const LETTERS = Array.from({ length: 92 }, (_, i) => String.fromCharCode(35 + i))
  .filter((letter) => !"$&'<>\\`".includes(letter))
  .join("");

function inBase85(bytes) {
  let text = "";
  for (let from = 0; from < bytes.length; from += 4) {
    let word = [0, 1, 2, 3].reduce((sum, i) => sum * 256 + (bytes[from + i] ?? 0), 0);
    let letters = "";
    for (let i = 0; i < 5; i++) {
      letters = LETTERS[word % 85] + letters;
      word = Math.floor(word / 85);
    }
    text += letters;
  }
  return text;
}
