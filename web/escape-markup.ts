/** Escapes text for HTML, SVG and XML. */

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Characters that XML 1.0 does not allow, not even escaped. */
// eslint-disable-next-line no-control-regex
const NOT_XML = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g

/** Returns the text as content or as a quoted attribute. */
export const escapeMarkup = (text: string): string =>
  text.replace(NOT_XML, '').replace(/[&<>"']/g, (char) => ENTITIES[char] ?? char)
