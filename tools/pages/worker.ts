import { setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { baseOf } from './address.ts'
import { decodePage } from './charset.ts'
import { extractOf } from './extract.ts'
import { formsOf, type PageControls } from './forms.ts'
import type { PageReading, PageSource } from './port.ts'
import { readPage } from './read.ts'
import { parsePage } from './tree.ts'

/** What a thread of `createPages` is asked. */
export type PageErrand =
  | { readonly type: 'read' | 'forms'; readonly source: PageSource }
  | { readonly type: 'extract'; readonly source: PageSource; readonly what: string }
  | { readonly type: 'plain'; readonly source: PageSource; readonly most: number }

export interface Answers {
  readonly read: PageReading
  readonly forms: PageControls
  readonly extract: string[]
  readonly plain: string
}

/** What a thread says; the first is that it is there. */
export type PageWord =
  | { readonly type: 'ready' }
  | { readonly type: 'done'; readonly answer: Answers[PageErrand['type']] }
  | { readonly type: 'failed'; readonly error: Error }

/** Lowers this thread and no other one, on Linux: where processors do not suffice, pages wait. */
const NICE = 5
if (process.platform === 'linux') setPriority(0, NICE)

const say = (word: PageWord) => parentPort?.postMessage(word)

/** The thread of `createPages`: one page at a time. */
parentPort?.on('message', (errand: PageErrand) => {
  try {
    say({ type: 'done', answer: run(errand) })
  } catch (error) {
    say({ type: 'failed', error: error instanceof Error ? error : new Error(String(error)) })
  }
})
say({ type: 'ready' })

function run(errand: PageErrand): Answers[PageErrand['type']] {
  if (errand.type === 'read') return readPage(errand.source)
  const { body, contentType, url } = errand.source
  const html = decodePage(body, contentType)
  if (errand.type === 'plain') return html.slice(0, errand.most)
  const { root } = parsePage(html)
  const base = baseOf(root, url)
  return errand.type === 'extract'
    ? extractOf(root, base, errand.what)
    : formsOf(root, new URL(url), base)
}
