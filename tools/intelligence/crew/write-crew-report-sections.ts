import type { ToolContext } from '../../define-tool.ts'
import { withLlmTimeout } from './crew-llm-timeout.ts'
import {
  extractRelevantStatementsFromSources,
  writeCitedStatementsWithLlm,
  type CitedStatement,
} from '../../web/research/cited-answer.ts'
import type { ResearchSource } from '../../web/research/gather-web-sources.ts'

/** A section of a report. */
export interface CrewReportSection {
  readonly heading: string
  readonly text: string
  /** Numbers of its sources. */
  readonly citations: readonly number[]
}

export interface WrittenCrewReportSections {
  readonly sections: readonly CrewReportSection[]
  readonly sources: readonly Citation[]
  readonly method: 'extractive' | 'llm'
}

interface Citation {
  readonly n: number
  readonly title: string
  readonly url: string
  readonly source: string
  readonly kind: ResearchSource['kind']
}

/** Draft of a section: statements of its sources about a query, or a finished text. */
export interface SectionDraft {
  readonly heading: string
  /** Absent where `ready` is the text. */
  readonly query?: string
  /** Indexes in the list of all sources. */
  readonly sourceIndexes?: readonly number[]
  /** Fixed statements, before those that answer the query. */
  readonly statements?: readonly CitedStatement[]
  readonly fixedText?: string
  /** Text of an otherwise empty section. */
  readonly fallbackText?: string
}

/**
 * Writes the sections in parallel: with a model, of which only grounded statements are kept, else with
 * sentences of the sources. Every statement cites its sources, numbered once for all sections.
 */
export async function writeCitedCrewReportSections(
  drafts: readonly SectionDraft[],
  sources: readonly ResearchSource[],
  context: ToolContext,
): Promise<WrittenCrewReportSections> {
  const parts = await Promise.all(drafts.map((draft) => resolveStatements(draft, sources, context)))
  const numbers = new Map<number, number>()
  const sections: CrewReportSection[] = []
  for (const [at, { heading, fixedText, fallbackText = '' }] of drafts.entries()) {
    const fixedStatements = parts[at]?.statements ?? []
    for (const place of fixedStatements.flatMap((one) => one.sources))
      numbers.set(place, numbers.get(place) ?? numbers.size + 1)
    const marked = fixedStatements.map((one) => toCitedSentence(one, numbers)).join(' ')
    const text = fixedText ?? (marked === '' ? fallbackText : marked)
    if (text === '') continue
    const citations = [...new Set(fixedStatements.flatMap((one) => one.sources))].map(
      (place) => numbers.get(place) ?? 0,
    )
    sections.push({ heading, text, citations })
  }
  return {
    sections,
    sources: [...numbers].flatMap(([place, n]) => {
      const source = sources[place]
      return source === undefined ? [] : [toCitation(n, source)]
    }),
    method: parts.some(({ byModel }) => byModel) ? 'llm' : 'extractive',
  }
}

async function resolveStatements(
  { query, sourceIndexes, statements = [] }: SectionDraft,
  all: readonly ResearchSource[],
  context: ToolContext,
): Promise<{ statements: readonly CitedStatement[]; byModel: boolean }> {
  if (query === undefined) return { statements, byModel: false }
  const indexes = sourceIndexes ?? all.map((_, at) => at)
  const sources = indexes.flatMap((place) => all[place] ?? [])
  if (sources.length === 0) return { statements, byModel: false }
  const model = await withLlmTimeout(context, (within) =>
    writeCitedStatementsWithLlm(query, sources, within),
  )
  const found =
    model?.statements ?? (await extractRelevantStatementsFromSources(query, sources, context.text))
  const placed = found.map(({ text, sources: cited }) => ({
    text,
    sources: cited.flatMap((at) => indexes[at] ?? []),
  }))
  return { statements: [...statements, ...placed], byModel: model !== null }
}

function toCitedSentence(
  { text, sources }: CitedStatement,
  numbers: ReadonlyMap<number, number>,
): string {
  const ended = /[.!?…]$/.test(text) ? text : `${text}.`
  const marks = sources.map((place) => `[${numbers.get(place)}]`).join('')
  return marks === '' ? ended : `${ended} ${marks}`
}

const toCitation = (n: number, { title, url, source, kind }: ResearchSource): Citation => ({
  n,
  title,
  url,
  source,
  kind,
})

/** Formats the sections as Markdown. */
export function toReportMarkdown(
  title: string,
  { sections, sources }: Pick<WrittenCrewReportSections, 'sections' | 'sources'>,
): string {
  const parts = sections.map(({ heading, text }) => `## ${heading}\n\n${text}`)
  const list = sources.map(({ n, title: name, url }) => `${n}. ${name === '' ? url : name}: ${url}`)
  const end = list.length === 0 ? [] : [`## Sources\n\n${list.join('\n')}`]
  return [`# ${title}`, ...parts, ...end].join('\n\n')
}
