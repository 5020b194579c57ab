import type { UnreadPage } from './web-research.ts'
import type { WrittenSections } from './write-sections.ts'

/** What a crew hands over. */
export interface CrewReport extends Omit<WrittenSections, 'method'> {
  readonly method: 'extractive' | 'template' | 'llm'
  readonly title: string
  /** The whole, as Markdown. */
  readonly text: string
  readonly unread: readonly UnreadPage[]
  /** Of a newsletter: the line it is sent under. */
  readonly subject?: string
  readonly emails?: readonly ColdEmail[]
  readonly tools?: readonly CrewToolRun[]
}

export interface ColdEmail {
  readonly subject: string
  readonly body: string
  /** Days after the first. */
  readonly send_after_days: number
  readonly words: number
  /** To be filled in before it is sent. */
  readonly merge_fields: readonly string[]
  /** What filters and readers dislike in it. */
  readonly warnings: readonly string[]
}

/** A tool that was run for a goal. */
export interface CrewToolRun {
  readonly tool: string
  readonly input: Record<string, unknown>
  readonly output: Record<string, unknown>
  /** It says itself that this is worth nothing, and why. */
  readonly waived?: string
}
