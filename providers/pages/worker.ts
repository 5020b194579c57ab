import { serveWorkerRequests } from '../../core/concurrency/serve-worker-requests.ts'
import {
  decodeResponseText,
  parseResponseBody,
  type ParsedBody,
  type ResponseFormat,
} from '../egress/parse-response-body.ts'
import { findPageBaseUrl } from './html/page-urls.ts'
import { decodePageBytes } from './html/decode-page.ts'
import { extractValuesBySelectorOrLabel } from './content/extract-page-values-by-selector.ts'
import { parseFormsAndLinks, type FormsAndLinks } from './content/parse-page-forms-and-links.ts'
import type { PageContent, ReceivedWebPage } from './page-parser-port.ts'
import { extractPageText, type PageText } from './page-text.ts'
import { parsePageContent } from './parse-page.ts'
import { parseHtmlTree } from './html/html-parser.ts'

/** Requests to a page process. */
export type PageParserWorkerRequest =
  | { readonly type: 'read' | 'forms' | 'text'; readonly source: ReceivedWebPage }
  | { readonly type: 'extract'; readonly source: ReceivedWebPage; readonly what: string }
  | {
      readonly type: 'body'
      readonly source: ReceivedWebPage
      readonly format: ResponseFormat
    }
  | { readonly type: 'plain'; readonly source: ReceivedWebPage; readonly most: number }

export interface PageParserWorkerAnswers {
  readonly read: PageContent
  readonly forms: FormsAndLinks
  readonly extract: string[]
  readonly plain: string
  readonly text: PageText
  readonly body: ParsedBody
}

/** Runs in a process of `createPageParserPool`, one page at a time. */
serveWorkerRequests(handleWorkerRequest)

function handleWorkerRequest(
  request: PageParserWorkerRequest,
): PageParserWorkerAnswers[PageParserWorkerRequest['type']] {
  if (request.type === 'read') return parsePageContent(request.source)
  const { body, contentType, url } = request.source
  if (request.type === 'body') return parseResponseBody(request.format, request.source)
  if (request.type === 'text') return extractPageText(decodeResponseText(request.source))
  const html = decodePageBytes(body, contentType)
  if (request.type === 'plain') return html.slice(0, request.most)
  const { root } = parseHtmlTree(html)
  const base = findPageBaseUrl(root, url)
  return request.type === 'extract'
    ? extractValuesBySelectorOrLabel(root, base, request.what)
    : parseFormsAndLinks(root, new URL(url), base)
}
