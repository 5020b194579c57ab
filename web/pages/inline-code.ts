import { html, type Html } from '../html-template-tag.ts'

/** Texts of schemas and catalogues have names between backticks: they become code. */
export const renderInlineCode = (text: string): Html[] =>
  text
    .split(/`([^`]+)`/)
    .map((part, at) => (at % 2 === 1 ? html`<code>${part}</code>` : html`${part}`))
