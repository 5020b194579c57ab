import type { ToolContext } from '../define.ts'
import { inTime } from './patience.ts'
import { extracted, written, type Statement } from '../research/answer.ts'
import type { Source } from '../research/sources.ts'

/** A part of what a crew writes. */
export interface Section {
  readonly heading: string
  readonly text: string
  /** Numbers of its sources. */
  readonly citations: readonly number[]
}

export interface Written {
  readonly sections: readonly Section[]
  readonly sources: readonly Citation[]
  readonly method: 'extractive' | 'llm'
}

interface Citation {
  readonly n: number
  readonly title: string
  readonly url: string
  readonly source: string
  readonly kind: Source['kind']
}

/** What a section is to say: statements of its sources about a query, or a text that is ready. */
export interface Draft {
  readonly heading: string
  /** Absent: `ready` stands as it is. */
  readonly query?: string
  /** Places in the list of all sources. */
  readonly from?: readonly number[]
  /** Statements that stand as they are; before those that answer the query. */
  readonly statements?: readonly Statement[]
  readonly ready?: string
  /** Said where nothing else is. */
  readonly otherwise?: string
}

/**
 * Writes the sections side by side: by a model, of which only what the sources bear out is kept, else
 * in sentences of the sources. Every statement carries its sources, numbered once for all sections.
 */
export async function writtenUp(
  drafts: readonly Draft[],
  sources: readonly Source[],
  context: ToolContext,
): Promise<Written> {
  const parts = await Promise.all(drafts.map((draft) => statementsOf(draft, sources, context)))
  const numbers = new Map<number, number>()
  const sections: Section[] = []
  for (const [at, { heading, ready, otherwise = '' }] of drafts.entries()) {
    const said = parts[at]?.statements ?? []
    for (const place of said.flatMap((one) => one.sources))
      numbers.set(place, numbers.get(place) ?? numbers.size + 1)
    const marked = said.map((one) => sentenceOf(one, numbers)).join(' ')
    const text = ready ?? (marked === '' ? otherwise : marked)
    if (text === '') continue
    const citations = [...new Set(said.flatMap((one) => one.sources))].map(
      (place) => numbers.get(place) ?? 0,
    )
    sections.push({ heading, text, citations })
  }
  return {
    sections,
    sources: [...numbers].flatMap(([place, n]) => {
      const source = sources[place]
      return source === undefined ? [] : [citationOf(n, source)]
    }),
    method: parts.some(({ byModel }) => byModel) ? 'llm' : 'extractive',
  }
}

async function statementsOf(
  { query, from, statements = [] }: Draft,
  all: readonly Source[],
  context: ToolContext,
): Promise<{ statements: readonly Statement[]; byModel: boolean }> {
  if (query === undefined) return { statements, byModel: false }
  const places = from ?? all.map((_, at) => at)
  const sources = places.flatMap((place) => all[place] ?? [])
  if (sources.length === 0) return { statements, byModel: false }
  const model = await inTime(context, (within) => written(query, sources, within))
  const found = model?.statements ?? (await extracted(query, sources, context.text))
  const placed = found.map(({ text, sources: cited }) => ({
    text,
    sources: cited.flatMap((at) => places[at] ?? []),
  }))
  return { statements: [...statements, ...placed], byModel: model !== null }
}

function sentenceOf({ text, sources }: Statement, numbers: ReadonlyMap<number, number>): string {
  const ended = /[.!?…]$/.test(text) ? text : `${text}.`
  const marks = sources.map((place) => `[${numbers.get(place)}]`).join('')
  return marks === '' ? ended : `${ended} ${marks}`
}

const citationOf = (n: number, { title, url, source, kind }: Source): Citation => ({
  n,
  title,
  url,
  source,
  kind,
})

/** The whole as Markdown. */
export function markdown(
  title: string,
  { sections, sources }: Pick<Written, 'sections' | 'sources'>,
): string {
  const parts = sections.map(({ heading, text }) => `## ${heading}\n\n${text}`)
  const list = sources.map(({ n, title: name, url }) => `${n}. ${name === '' ? url : name}: ${url}`)
  const end = list.length === 0 ? [] : [`## Sources\n\n${list.join('\n')}`]
  return [`# ${title}`, ...parts, ...end].join('\n\n')
}
