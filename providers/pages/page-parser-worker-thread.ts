import { setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { findPageBaseUrl } from './html/page-urls.ts'
import { decodePageBytes } from './html/decode-page.ts'
import { extractValuesBySelectorOrLabel } from './content/extract-page-values-by-selector.ts'
import { parseFormsAndLinks, type FormsAndLinks } from './content/parse-page-forms-and-links.ts'
import type { PageContent, ReceivedWebPage } from './page-parser-port.ts'
import { parsePageContent } from './parse-page.ts'
import { parseHtmlTree } from './html/html-parser.ts'

/** Requests to a page thread. */
export type PageParserWorkerRequest =
  | { readonly type: 'read' | 'forms'; readonly source: ReceivedWebPage }
  | { readonly type: 'extract'; readonly source: ReceivedWebPage; readonly what: string }
  | { readonly type: 'plain'; readonly source: ReceivedWebPage; readonly most: number }

export interface PageParserWorkerAnswers {
  readonly read: PageContent
  readonly forms: FormsAndLinks
  readonly extract: string[]
  readonly plain: string
}

/** Messages of a page thread; the first reports its start. */
export type PageParserWorkerMessage =
  | { readonly type: 'ready' }
  | {
      readonly type: 'done'
      readonly answer: PageParserWorkerAnswers[PageParserWorkerRequest['type']]
    }
  | { readonly type: 'failed'; readonly error: Error }

/** Niceness of this thread only, on Linux: on a busy machine pages wait. */
const WORKER_NICENESS = 5
if (process.platform === 'linux') setPriority(0, WORKER_NICENESS)

const postWorkerMessage = (message: PageParserWorkerMessage) => parentPort?.postMessage(message)

/** Runs in a thread of `createPageParserPool`, one page at a time. */
parentPort?.on('message', (request: PageParserWorkerRequest) => {
  try {
    postWorkerMessage({ type: 'done', answer: handleWorkerRequest(request) })
  } catch (error) {
    postWorkerMessage({
      type: 'failed',
      error: error instanceof Error ? error : new Error(String(error)),
    })
  }
})
postWorkerMessage({ type: 'ready' })

function handleWorkerRequest(
  request: PageParserWorkerRequest,
): PageParserWorkerAnswers[PageParserWorkerRequest['type']] {
  if (request.type === 'read') return parsePageContent(request.source)
  const { body, contentType, url } = request.source
  const html = decodePageBytes(body, contentType)
  if (request.type === 'plain') return html.slice(0, request.most)
  const { root } = parseHtmlTree(html)
  const base = findPageBaseUrl(root, url)
  return request.type === 'extract'
    ? extractValuesBySelectorOrLabel(root, base, request.what)
    : parseFormsAndLinks(root, new URL(url), base)
}
