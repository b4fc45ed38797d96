/** The header fields of a request, by lower-case name. */
export type Headers = Map<string, string[]>;

/** Splits the head of an HTTP request into its fields. Lines that begin with a space continue the line before. */
export function parseHeaders(head: string): Headers {
  const fields: Headers = new Map();
  let last: string[] | undefined;
  for (const line of head.split("\r\n")) {
    if (/^[ \t]/.test(line) && last) {
      last[last.length - 1] += " " + line.trim();
      continue;
    }
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const name = line.slice(0, colon).toLowerCase();
    last = fields.get(name) ?? [];
    last.push(line.slice(colon + 1).trim());
    fields.set(name, last);
  }
  return fields;
}

/** Chooses the language of a page by the Accept-Language field and what there is. */
export function chooseLanguage(accept: string, available: string[]): string {
  const wanted = accept
    .split(",")
    .map((part) => {
      const [language, quality] = part.trim().split(";q=");
      return { language, quality: quality === undefined ? 1 : Number(quality) };
    })
    .sort((a, b) => b.quality - a.quality);
  const match = wanted.find(({ language }) => available.includes(language));
  return match?.language ?? available[0];
}
