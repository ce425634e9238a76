/** Content of an element: text, or elements by their names. An array is the element several times. */
type XmlContent = string | number | boolean | XmlElements | readonly XmlElements[];
export interface XmlElements {
  readonly [name: string]: XmlContent | undefined;
}

const escapes: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "\r": "&#13;",
};

/** A document of elements without attributes. */
export function toXml(elements: XmlElements): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n${toElements(elements)}`;
}

function toElements(elements: XmlElements): string {
  return Object.entries(elements)
    .map(([name, content]) => {
      if (content === undefined) return "";
      if (Array.isArray(content)) return content.map((one) => toElement(name, one)).join("");
      return toElement(name, content);
    })
    .join("");
}

function toElement(name: string, content: XmlContent): string {
  const inner =
    typeof content === "object"
      ? toElements(content as XmlElements)
      : String(content).replaceAll(/[&<>"\r]/g, (char) => escapes[char] ?? char);
  return `<${name}>${inner}</${name}>`;
}

/** The texts of all elements of a name, however deep. */
export function textsOf(xml: string, name: string): string[] {
  return [...xml.matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, "g"))].map(([, text = ""]) =>
    text.replaceAll("&quot;", '"').replaceAll("&#34;", '"').replaceAll("&amp;", "&"),
  );
}
