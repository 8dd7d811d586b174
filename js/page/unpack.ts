/** Plain values from the text that Python wrote into the page: base64 of gzip of JSON. */
export async function unpack<T>(text: string): Promise<T> {
  const bytes = Uint8Array.from(atob(text.trim()), (char) => char.charCodeAt(0));
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(inflated).text());
}
