import { ServiceError } from '../../../core/errors.ts'
import type { BrowserSession, RenderedPage } from '../../../providers/browser/browser-port.ts'
import { RequestNotSentError } from '../../../providers/egress/egress-client-port.ts'
import type { BrowserPageStep } from './page-step-types.ts'

/** Runs the steps of `agent-act`. */

export interface PageStepResult {
  readonly op: BrowserPageStep['op']
  readonly ok: boolean
  readonly detail: string
}

export interface PageStepsResult {
  readonly steps: readonly PageStepResult[]
  /** Whether every step was done. */
  readonly complete: boolean
  readonly extracted: ReadonlyMap<string, readonly string[]>
  /** Null where it could no longer be read. */
  readonly page: RenderedPage | null
}

export interface RunPageStepsDeps {
  readonly session: BrowserSession
  /** Aborted by the tool's deadline, or at the end of the time for steps. */
  readonly signal: AbortSignal
  /** Called right before the first step with possible side effects; when it throws, the step is not done. */
  readonly seal: () => void
  /** Returns the values under a name of a page. */
  readonly extract: (page: RenderedPage, what: string) => Promise<readonly string[]>
  readonly onStep: (place: number, done: PageStepResult) => void
}

/**
 * Runs the first step, plans the others, and runs them in order. A failure before any submission is thrown
 * with its step number; a later one is reported, and the remaining steps are skipped.
 */
export async function runPageSteps(
  first: BrowserPageStep,
  rest: () => Promise<readonly BrowserPageStep[]>,
  deps: RunPageStepsDeps,
): Promise<PageStepsResult> {
  const { session, signal, seal, extract, onStep } = deps
  const done: PageStepResult[] = []
  const extracted = new Map<string, readonly string[]>()
  let submitted = false
  let left = MAX_EXTRACTED_CHARS
  const before = () => {
    if (!submitted) seal()
    submitted = true
  }

  session.onSideEffect(before)

  async function one(step: BrowserPageStep): Promise<string> {
    switch (step.op) {
      case 'goto':
        await session.goto(step.url)
        return atPage(await session.page())
      case 'fill':
        await session.fill(step.field, step.value)
        return `filled "${step.field}"`
      case 'select':
        await session.select(step.field, step.option)
        return `selected "${step.option}" in "${step.field}"`
      case 'check':
        await session.check(step.field)
        return `checked "${step.field}"`
      case 'click':
        await session.click(step.target, before)
        return `clicked "${step.target}", ${atPage(await session.page())}`
      case 'submit': {
        await session.submit(step.form, before)
        const page = await session.page()
        if (page.status >= 400) throw new ServiceError('step_failed', { detail: atPage(page) })
        return `submitted, ${atPage(page)}`
      }
      case 'extract': {
        const values = await extract(await session.page(), step.what)
        if (values.length === 0)
          throw new ServiceError('step_failed', { detail: `the page has no "${step.what}"` })
        const room = values.filter((value) => (left -= value.length) >= 0)
        extracted.set(step.what, [...(extracted.get(step.what) ?? []), ...room])
        return room.length === values.length
          ? `${values.length} found`
          : `${values.length} found, ${room.length} of them told`
      }
      case 'wait':
        await session.wait(step.ms)
        return `waited ${step.ms} ms`
    }
  }

  const steps = [first]
  // The list grows after the first step.
  for (const [place, step] of steps.entries()) {
    const earlier = submitted
    let detail: string
    let ok = true
    try {
      detail = await one(step)
    } catch (error) {
      // A request that was not sent has changed nothing.
      const unsent = error instanceof RequestNotSentError
      const reason = toStepError(unsent ? error.reason : error, signal)
      if (!earlier && (unsent || !submitted)) throw withStepNumber(reason, place, step)
      detail = `${reason.code}: ${reason.message}${reasonOf(reason)}`
      ok = false
    }
    const result = { op: step.op, ok, detail: detail.slice(0, MAX_DETAIL_CHARS) }
    done.push(result)
    onStep(place, result)
    // A failed extraction does not stop the other steps.
    if (!ok && step.op !== 'extract') break
    if (place === 0) steps.push(...(await rest()))
  }
  const page = await session.page().catch(() => null)
  return { steps: done, complete: done.length === steps.length, extracted, page }
}

const MAX_DETAIL_CHARS = 400
/** Characters over all values. */
const MAX_EXTRACTED_CHARS = 100_000

const atPage = ({ url, status }: RenderedPage): string => `${url.slice(0, 200)} answered ${status}`

function toStepError(error: unknown, signal: AbortSignal): ServiceError {
  if (signal.aborted)
    return signal.reason instanceof ServiceError ? signal.reason : new ServiceError('tool_timeout')
  if (error instanceof ServiceError) return error
  throw error
}

const reasonOf = ({ details }: ServiceError): string => {
  const reason = details['reason'] ?? details['host']
  return typeof reason === 'string' ? ` (${reason})` : ''
}

/** Adds the step number, from 1, to an error. */
const withStepNumber = (
  error: ServiceError,
  place: number,
  { op }: BrowserPageStep,
): ServiceError => new ServiceError(error.code, { ...error.details, step: place + 1, op }, error)
