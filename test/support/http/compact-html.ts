/** HTML without the white space between its parts, which says nothing. */
export const compactHtml = (html: string): string =>
  html
    .replace(/\s+/g, ' ')
    .replace(/ ?\/?>/g, '>')
    .replace(/> </g, '><')
    .replace(/> /g, '>')
    .replace(/ <\//g, '</')
