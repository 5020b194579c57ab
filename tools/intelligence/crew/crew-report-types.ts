import type { UnreadableSearchResultPage } from './crew-web-and-social-search.ts'
import type { WrittenCrewReportSections } from './write-crew-report-sections.ts'

/** The result of a crew. */
export interface CrewReport extends Omit<WrittenCrewReportSections, 'method'> {
  readonly method: 'extractive' | 'template' | 'llm'
  readonly title: string
  /** The whole report as Markdown. */
  readonly text: string
  readonly unread: readonly UnreadableSearchResultPage[]
  /** Subject line of a newsletter. */
  readonly subject?: string
  readonly emails?: readonly ColdEmail[]
  readonly tools?: readonly CrewToolRun[]
}

export interface ColdEmail {
  readonly subject: string
  readonly body: string
  /** Days after the first e-mail. */
  readonly send_after_days: number
  readonly words: number
  /** Placeholders to fill in before sending. */
  readonly merge_fields: readonly string[]
  /** Problems that spam filters or readers would object to. */
  readonly warnings: readonly string[]
}

/** A tool call made for a goal. */
export interface CrewToolRun {
  readonly tool: string
  readonly input: Record<string, unknown>
  readonly output: Record<string, unknown>
  /** Why the tool waived its price, if it did. */
  readonly waived?: string
}
