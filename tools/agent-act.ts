import { randomBytes } from 'node:crypto'
import Type from 'typebox'
import { SECOND } from '../core/clock.ts'
import { invalid, ServiceError } from '../core/errors.ts'
import { fromUsdc } from '../core/money.ts'
import { SAID } from '../core/said.ts'
import { stepsByModel } from './acting/ask-llm.ts'
import { extractFrom, isPage, sourceOf } from './acting/extracting.ts'
import { readInstruction, type Reading } from './acting/grammar.ts'
import { httpSession } from './acting/http-session.ts'
import { perform, type Performed } from './acting/perform.ts'
import { MOST_STEPS, OPS, type Step } from './acting/steps.ts'
import type { BrowserSession } from './browser/port.ts'
import { defineTool, ownerOf, type ToolContext } from './define.ts'
import { modeOfSite } from './egress/address.ts'

/** For acting; what is left of the tool's time is for telling what came of it. */
const ACT_MS = 45 * SECOND
const LONGEST_TEXT = 20_000
const LONGEST_URL = 4_096
const ENGINES = ['auto', 'http', 'browser'] as const

type Engine = 'http' | 'browser'

function notUnderstood({ unknown, why }: Extract<Reading, { unknown: string }>): ServiceError {
  const clause = unknown.slice(0, 200)
  const detail = `"${clause}" is not understood: ${why}.`
  return new ServiceError('instruction_not_understood', { clause, detail })
}

function checkLength(steps: readonly Step[]): readonly Step[] {
  if (steps.length <= MOST_STEPS) return steps
  throw invalid('/instruction', `asks for more than ${MOST_STEPS} steps`)
}

/** By the grammar, else by a model. */
async function stepsFor(instruction: string, context: ToolContext): Promise<readonly Step[]> {
  const reading = readInstruction(instruction)
  if ('steps' in reading) return checkLength(reading.steps)
  const { llm } = context
  if (llm === null) throw notUnderstood(reading)
  return stepsByModel(llm, instruction, context)
}

/** The browser where it is wanted and free, else pages without their scripts. */
async function openSession(
  wanted: (typeof ENGINES)[number],
  context: ToolContext,
  signal: AbortSignal,
): Promise<{ session: BrowserSession; engine: Engine }> {
  const { browser, caller, egress, pages, now } = context
  if (wanted === 'browser' && browser === null) throw noBrowser()
  if (wanted !== 'http' && browser !== null && (wanted === 'browser' || browser.works())) {
    try {
      return { session: await browser.open({ owner: ownerOf(caller), signal }), engine: 'browser' }
    } catch (error) {
      const isAway =
        error instanceof ServiceError &&
        (error.code === 'browser_busy' || error.code === 'provider_not_configured')
      if (wanted === 'browser' || !isAway) throw error
    }
  }
  const boundary = `----gas${randomBytes(16).toString('hex')}`
  return { session: httpSession({ egress, pages, now, signal, boundary }), engine: 'http' }
}

const noBrowser = () =>
  new ServiceError('provider_not_configured', {
    requires: ['CHROMIUM_PATH'],
    detail: 'This station has no browser; the engine "http" does without scripts.',
  })

/** What a database can keep: a cut may have halved a letter. */
const storable = (text: string): string =>
  text.replace(/\0/g, '').replace(/\p{Surrogate}/gu, '\ufffd')

async function textOf({ page }: Performed, engine: Engine, { pages, signal }: ToolContext) {
  if (page === null) return ''
  const source = sourceOf(page)
  // A browser makes a page of everything.
  if (engine !== 'browser' && !isPage(page.contentType))
    return pages.plain(source, LONGEST_TEXT, signal).catch(() => '')
  const reading = await pages.read(source, signal).catch(() => null)
  return reading?.text.slice(0, LONGEST_TEXT) ?? ''
}

export default defineTool({
  slug: 'agent_act',
  name: 'Agent Act',
  category: 'perception',
  description:
    'Goes to a page, fills and submits its forms, clicks and extracts, as an instruction says; in a browser where there is one, else without scripts. What fails before anything was submitted is not charged.',
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
      url: Type.String({ format: 'uri', maxLength: 4096, description: 'Where it begins.' }),
      instruction: Type.String({
        minLength: 1,
        maxLength: 4_000,
        pattern: SAID,
        description:
          '`go to URL`, `fill NAME with "TEXT"`, `type "TEXT" into NAME`, `select "OPTION" from NAME`, `check NAME`, `click NAME`, `submit [NAME]`, `extract NAME`, `wait SECONDS`; joined by comma, semicolon, `and` or `then`. Quotes protect what is in them.',
      }),
      engine: Type.Optional(
        Type.Enum([...ENGINES], {
          default: 'auto',
          description:
            '`browser` runs the scripts of the page; `http` does not; `auto` takes what there is.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    ok: Type.Boolean({ description: 'Every step was done.' }),
    steps: Type.Array(
      Type.Object({
        op: Type.Enum([...OPS]),
        ok: Type.Boolean(),
        detail: Type.String(),
      }),
      {
        description:
          'What was done; the first is the way to `url`. What is missing was left undone.',
      },
    ),
    final_url: Type.String({ description: `Cut after ${LONGEST_URL} characters.` }),
    status: Type.Integer({
      description: 'Of the answer that the last page came in; 0 if none did.',
    }),
    engine: Type.Enum(['http', 'browser']),
    extracted: Type.Record(Type.String(), Type.Array(Type.String()), {
      description: 'By what was asked for.',
    }),
    text: Type.String({ description: 'What the last page shows.' }),
  }),
  availability({ browser, llm }) {
    const works = browser?.works() === true
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
    const reading = readInstruction(instruction)
    if (!('steps' in reading) && llm === null) throw notUnderstood(reading)
    if (engine === 'browser' && browser === null) throw noBrowser()
    const steps = 'steps' in reading ? checkLength(reading.steps) : []
    const named = steps.flatMap((step) => (step.op === 'goto' ? [step.url] : []))
    for (const address of [url, ...named.filter((text) => URL.canParse(text))])
      await egress.preflight({ url: address, secrets, signal })
  },
  async run({ url, instruction, engine: wanted = 'auto' }, context) {
    const { signal: given, seal, emit, meter, pages } = context
    const signal = AbortSignal.any([given, AbortSignal.timeout(ACT_MS)])
    const { session, engine } = await openSession(wanted, context, signal)
    try {
      const first: Step = { op: 'goto', url }
      // A model is asked nothing about a page that cannot be reached.
      const performed = await perform(first, () => stepsFor(instruction, context), {
        session,
        signal,
        seal,
        extract: (page, what) => extractFrom(page, what, pages, signal),
        onStep(place, done) {
          emit({ type: 'partial', path: `/steps/${place}`, value: done })
        },
      })
      const { page, extracted } = performed
      meter.served(engine === 'browser' ? 'chromium' : 'http', modeOfSite(page?.url ?? url))
      return {
        ok: performed.complete && performed.steps.every(({ ok }) => ok),
        steps: performed.steps.map((step) => ({ ...step, detail: storable(step.detail) })),
        final_url: storable((page?.url ?? url).slice(0, LONGEST_URL)),
        status: page?.status ?? 0,
        engine,
        extracted: Object.fromEntries(
          [...extracted].map(([what, values]) => [storable(what), values.map(storable)]),
        ),
        text: storable(await textOf(performed, engine, context)),
      }
    } finally {
      await session.close()
    }
  },
})
