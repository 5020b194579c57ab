import { randomBytes } from 'node:crypto'
import Type from 'typebox'
import { SECOND } from '../../core/clock.ts'
import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { fromUsdc } from '../../core/money.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { planPageStepsWithLlm } from './agent-act/plan-page-steps-with-llm.ts'
import {
  extractPageValues,
  isHtmlContentType,
  renderedPageToHtmlSource,
} from './agent-act/agent-act-extract-values.ts'
import {
  parsePageInstruction,
  type PageInstructionParseResult,
} from './agent-act/parse-page-instruction.ts'
import { createHttpBrowsingSession } from './agent-act/http-browsing-session.ts'
import { runPageSteps, type PageStepsResult } from './agent-act/run-page-steps.ts'
import {
  MAX_BROWSER_PAGE_STEPS,
  BROWSER_PAGE_STEP_OPS,
  type BrowserPageStep,
} from './agent-act/page-step-types.ts'
import type { BrowserSession } from '../../providers/browser/browser-port.ts'
import { defineTool, callerIdOf, workerPlaceOf, type ToolContext } from '../define-tool.ts'
import { liveOrFixtureModeOfUrl } from '../../providers/egress/public-ip-address.ts'

/** The tool `agent-act`: performs steps on a web page. */

/** Limit of the steps; the rest of the tool's time is for reporting. */
const ACT_TIMEOUT_MS = 45 * SECOND
const MAX_TEXT_CHARS = 20_000
const MAX_URL_CHARS = 4_096
const ENGINES = ['auto', 'http', 'browser'] as const

type Engine = 'http' | 'browser'

function instructionNotUnderstood({
  unknown,
  why,
}: Extract<PageInstructionParseResult, { unknown: string }>): ServiceError {
  const clause = unknown.slice(0, 200)
  const detail = `"${clause}" is not understood: ${why}.`
  return new ServiceError('instruction_not_understood', { clause, detail })
}

function assertStepCount(steps: readonly BrowserPageStep[]): readonly BrowserPageStep[] {
  if (steps.length <= MAX_BROWSER_PAGE_STEPS) return steps
  throw invalidInputError('/instruction', `asks for more than ${MAX_BROWSER_PAGE_STEPS} steps`)
}

/** Parses the instruction by its grammar, else with a model. */
async function stepsFor(
  instruction: string,
  context: ToolContext,
): Promise<readonly BrowserPageStep[]> {
  const reading = parsePageInstruction(instruction)
  if ('steps' in reading) return assertStepCount(reading.steps)
  const { llm } = context
  if (llm === null) throw instructionNotUnderstood(reading)
  return planPageStepsWithLlm(llm, instruction, context)
}

/** Opens the browser where it is requested and free, else plain HTTP pages. */
async function openSession(
  wanted: (typeof ENGINES)[number],
  context: ToolContext,
  signal: AbortSignal,
): Promise<{ session: BrowserSession; engine: Engine }> {
  const { browser, caller, egress, pages, now } = context
  const owner = callerIdOf(caller)
  if (wanted === 'browser' && browser === null) throw noBrowser()
  if (wanted !== 'http' && browser !== null && (wanted === 'browser' || browser.isAvailable())) {
    try {
      return {
        session: await browser.openSession({ owner, signal }),
        engine: 'browser',
      }
    } catch (error) {
      const isAway =
        error instanceof ServiceError &&
        (error.code === 'browser_busy' || error.code === 'provider_not_configured')
      if (wanted === 'browser' || !isAway) throw error
    }
  }
  const boundary = `----gas${randomBytes(16).toString('hex')}`
  return {
    session: createHttpBrowsingSession({ egress, pages, now, signal, owner, boundary }),
    engine: 'http',
  }
}

const noBrowser = () =>
  new ServiceError('provider_not_configured', {
    requires: ['CHROMIUM_PATH'],
    detail: 'This station has no browser; the engine "http" does without scripts.',
  })

/** Removes lone surrogates, which a cut may leave and Postgres cannot store. */
const toStorableText = (text: string): string =>
  text.replace(/\0/g, '').replace(/\p{Surrogate}/gu, '\ufffd')

async function readPageText({ page }: PageStepsResult, engine: Engine, context: ToolContext) {
  if (page === null) return ''
  const { pages } = context
  const place = workerPlaceOf(context)
  const source = renderedPageToHtmlSource(page)
  // A browser renders any content as a page.
  if (engine !== 'browser' && !isHtmlContentType(page.contentType))
    return pages.decodeText(source, MAX_TEXT_CHARS, place).catch(() => '')
  const reading = await pages.read(source, place).catch(() => null)
  return reading?.text.slice(0, MAX_TEXT_CHARS) ?? ''
}

export default defineTool({
  slug: 'agent_act',
  name: 'Agent Act',
  category: 'perception',
  description:
    'Goes to a page, fills and submits its forms, clicks and extracts, following an instruction; in a browser if available, else without scripts. A failure before the first submission is not charged.',
  tags: ['browser', 'forms', 'automation', 'scrape'],
  useCases: ['Send a form', 'Log in and read a page behind it', 'Search a site that has no API'],
  examples: [
    { url: 'https://example.com', instruction: 'extract title and text' },
    {
      url: 'https://example.com/login',
      instruction:
        'fill email with "ada@example.com", type "secret" into password, submit, then extract title',
    },
  ],
  access: 'paid',
  price: fromUsdc(0.05),
  effect: 'external',
  actsOnOthers: true,
  timeoutMs: 60_000,
  input: Type.Object(
    {
      url: Type.String({ format: 'uri', maxLength: 4096, description: 'The start page.' }),
      instruction: Type.String({
        minLength: 1,
        maxLength: 4_000,
        pattern: NOT_BLANK_PATTERN,
        description:
          '`go to URL`, `fill NAME with "TEXT"`, `type "TEXT" into NAME`, `select "OPTION" from NAME`, `check NAME`, `click NAME`, `submit [NAME]`, `extract NAME`, `wait SECONDS`; joined by comma, semicolon, `and` or `then`. Quotes protect what is in them.',
      }),
      engine: Type.Optional(
        Type.Enum([...ENGINES], {
          default: 'auto',
          description:
            '`browser` runs the scripts of the page; `http` does not; `auto` uses what is available.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    ok: Type.Boolean({ description: 'Every step was done.' }),
    steps: Type.Array(
      Type.Object({
        op: Type.Enum([...BROWSER_PAGE_STEP_OPS]),
        ok: Type.Boolean(),
        detail: Type.String(),
      }),
      {
        description:
          'The executed steps; the first is the navigation to `url`. Missing steps were skipped.',
      },
    ),
    final_url: Type.String({ description: `Cut after ${MAX_URL_CHARS} characters.` }),
    status: Type.Integer({
      description: 'Status of the last page; 0 without a response.',
    }),
    engine: Type.Enum(['http', 'browser']),
    extracted: Type.Record(Type.String(), Type.Array(Type.String()), {
      description: 'By requested name.',
    }),
    text: Type.String({ description: 'Content of the last page.' }),
  }),
  availability({ browser, llm }) {
    const works = browser?.isAvailable() === true
    const requires = [
      ...(works ? [] : ['CHROMIUM_PATH']),
      ...(llm === null ? ['LLM_PROVIDERS'] : []),
    ]
    return {
      available: true,
      mode: works ? 'browser' : 'http',
      requires,
      providers: works ? ['chromium', 'http'] : ['http'],
    }
  },
  async preflight({ url, instruction, engine }, { egress, secrets, signal, browser, llm }) {
    const reading = parsePageInstruction(instruction)
    if (!('steps' in reading) && llm === null) throw instructionNotUnderstood(reading)
    if (engine === 'browser' && browser === null) throw noBrowser()
    const steps = 'steps' in reading ? assertStepCount(reading.steps) : []
    const named = steps.flatMap((step) => (step.op === 'goto' ? [step.url] : []))
    for (const address of [url, ...named.filter((text) => URL.canParse(text))])
      await egress.preflight({ url: address, secrets, signal })
  },
  async run({ url, instruction, engine: wanted = 'auto' }, context) {
    const { signal: given, seal, emit, meter, pages } = context
    const signal = AbortSignal.any([given, AbortSignal.timeout(ACT_TIMEOUT_MS)])
    const owner = callerIdOf(context.caller)
    const { session, engine } = await openSession(wanted, context, signal)
    try {
      const first: BrowserPageStep = { op: 'goto', url }
      // No model call for a page that cannot be reached.
      const performed = await runPageSteps(first, () => stepsFor(instruction, context), {
        session,
        signal,
        seal,
        extract: (page, what) => extractPageValues(page, what, pages, { owner, signal }),
        onStep(place, done) {
          emit({ type: 'partial', path: `/steps/${place}`, value: done })
        },
      })
      const { page, extracted } = performed
      meter.served(
        engine === 'browser' ? 'chromium' : 'http',
        liveOrFixtureModeOfUrl(page?.url ?? url),
      )
      return {
        ok: performed.complete && performed.steps.every(({ ok }) => ok),
        steps: performed.steps.map((step) => ({ ...step, detail: toStorableText(step.detail) })),
        final_url: toStorableText((page?.url ?? url).slice(0, MAX_URL_CHARS)),
        status: page?.status ?? 0,
        engine,
        extracted: Object.fromEntries(
          [...extracted].map(([what, values]) => [
            toStorableText(what),
            values.map(toStorableText),
          ]),
        ),
        text: toStorableText(await readPageText(performed, engine, context)),
      }
    } finally {
      await session.close()
    }
  },
})
