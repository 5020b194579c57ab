import type { Unread } from './look.ts'
import type { Written } from './writing.ts'

/** What a crew hands over. */
export interface Report extends Omit<Written, 'method'> {
  readonly method: 'extractive' | 'template' | 'llm'
  readonly title: string
  /** The whole, as Markdown. */
  readonly text: string
  readonly unread: readonly Unread[]
  /** Of a newsletter: the line it is sent under. */
  readonly subject?: string
  readonly letters?: readonly Letter[]
  readonly tools?: readonly ToolRun[]
}

export interface Letter {
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
export interface ToolRun {
  readonly tool: string
  readonly input: Record<string, unknown>
  readonly output: Record<string, unknown>
  /** It says itself that this is worth nothing, and why. */
  readonly waived?: string
}
