import t from 'tap'
import Type from 'typebox'
import { runTool } from '../../../calls/run-tool.ts'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { ServiceError } from '../../../core/errors.ts'
import { createCookieJar } from '../../../tools/perception/agent-act/cookie-jar.ts'
import { parsePageInstruction } from '../../../tools/perception/agent-act/parse-page-instruction.ts'
import agentAct from '../../../tools/perception/agent-act.ts'
import { createToolCatalogue } from '../../../tools/tool-catalogue.ts'
import { TOOL_CALL_ID } from '../../support/tools/test-tool-context.ts'

t.test('an instruction is parsed clause by clause, and quotes protect their content', async (t) => {
  const steps = (text: string) => {
    const reading = parsePageInstruction(text)
    return 'steps' in reading ? reading.steps : reading
  }
  t.strictSame(
    steps(
      `Go to https://x.test/a,b;c?d=1, fill the e-mail field with "a, b; and then \\"c\\"" and password with 'it's me', type “x” into Name; select "Large" from size, check the terms checkbox then click "Terms and, conditions". submit the login form, extract title and links, extract order number, wait 2, wait 150 ms`,
    ),
    [
      { op: 'goto', url: 'https://x.test/a,b;c?d=1' },
      { op: 'fill', field: 'e-mail', value: 'a, b; and then "c"' },
      { op: 'fill', field: 'password', value: "it's me" },
      { op: 'fill', field: 'Name', value: 'x' },
      { op: 'select', field: 'size', option: 'Large' },
      { op: 'check', field: 'terms' },
      { op: 'click', target: 'Terms and, conditions' },
      { op: 'submit', form: 'login' },
      { op: 'extract', what: 'title' },
      { op: 'extract', what: 'links' },
      { op: 'extract', what: 'order number' },
      { op: 'wait', ms: 2000 },
      { op: 'wait', ms: 150 },
    ],
  )
  t.strictSame(steps('submit'), [{ op: 'submit', form: null }])
  t.strictSame(steps('fill "with" with "" and submit'), [
    { op: 'fill', field: 'with', value: '' },
    { op: 'submit', form: null },
  ])
  const misread = {
    'dance a little': 'dance a little',
    'click x, make "coffee"': 'make "coffee"',
    'fill name': 'fill name',
    'wait for it': 'wait for it',
    'wait 60': 'wait 60000 ms',
    'extract title and dance': 'dance',
    ', ;': ', ;',
  }
  for (const [text, unknown] of Object.entries(misread)) t.match(steps(text), { unknown }, text)
})

t.test('an ambiguous instruction is rejected unless it is quoted', async (t) => {
  const doubtful = [
    'fill name with "Bob and submit',
    'fill name with "Bob"and submit',
    'fill name with Bob" and submit',
    "click 'Buy, submit",
    `click ${'"'.repeat(4_000)}`,
    'go to example.com',
    'go to "page.html"',
    'press enter',
    'tap the Enter key',
    'check out',
    'fill up name with "x"',
    'submit it',
    'fill it with "x"',
    'click Read and submit',
    'click Sign in and get started',
  ]
  for (const text of doubtful)
    t.match(parsePageInstruction(text), { unknown: String, why: String }, text)
  const plain = {
    'check "out", submit "it"': ['check', 'submit'],
    'click "Read" and submit': ['click', 'submit'],
    'click Read, and submit': ['click', 'submit'],
    'click Read and extract title': ['click', 'extract'],
    'press the enter button': ['click'],
    'go to ./page.html, go to ?q=1': ['goto', 'goto'],
    [`fill in [name="a"] with 'it's "x"'`]: ['fill'],
  }
  for (const [text, ops] of Object.entries(plain)) {
    const reading = parsePageInstruction(text)
    t.strictSame('steps' in reading && reading.steps.map(({ op }) => op), ops, text)
  }
})

t.test('a cookie is not sent to a host that only shares a public suffix', async (t) => {
  const sentTo = (host: string, domain: string, other: string) => {
    const jar = createCookieJar()
    jar.storeCookies([`a=1; Domain=${domain}`], new URL(`https://${host}/`), new Date(0))
    return jar.headerFor(new URL(`https://${other}/`))
  }
  t.equal(sentTo('shop.co.uk', 'co.uk', 'bank.co.uk'), null)
  t.equal(sentTo('shop.co.uk', 'co.uk', 'shop.co.uk'), 'a=1')
  t.equal(sentTo('shop.test', 'test', 'other.test'), null)
  t.equal(sentTo('shop.example', 'shop.example', 'www.shop.example'), 'a=1')
})

t.test('after the seal no call is refunded for the form of its answer', async (t) => {
  const answer = async (n: number, run: (seal: () => void) => unknown, timeoutMs = 60_000) => {
    const made = {
      ...agentAct,
      slug: `sealed_${n}`,
      timeoutMs,
      output: Type.Object({ a: Type.String() }),
      run: async (_: unknown, { seal }: { seal: () => void }) => run(seal),
    }
    const catalogue = createToolCatalogue({ tools: [made] } as never)
    const parts = {
      clock: createDatabaseAdjustedClock(),
      shutdown: new AbortController().signal,
      catalogue,
      ports: {},
      log: () => {},
      lookInHive: async () => [],
      failedVisits: { recordFailure: () => {} },
    }
    const { signal: closeSignal } = new AbortController()
    const connection = { closed: false, closeSignal }
    const caller = { agentId: null, visitorId: 'v' }
    const request = { caller, backpackId: null, ghost: 'off', connection, idempotency: null }
    const ticket = { plan: { tool: made, input: {}, request }, callId: TOOL_CALL_ID, amount: 0n }
    const work = runTool(parts as never, ticket as never, () => {})
    return work.then(
      () => 'done',
      (error: { code?: string; message: string }) => error.code ?? error.message,
    )
  }
  const sealed = (what: () => unknown) => (seal: () => void) => {
    seal()
    return what()
  }
  const bug = () => {
    throw new Error('a bug')
  }
  const known = () => {
    throw new ServiceError('transaction_rejected')
  }
  const long = () => ({ a: 'x'.repeat(2 ** 20) })
  t.equal(await answer(1, sealed(long)), 'outcome_unknown')
  t.equal(
    await answer(
      2,
      sealed(() => ({ b: 1 })),
    ),
    'outcome_unknown',
  )
  t.equal(await answer(3, sealed(bug)), 'outcome_unknown')
  t.equal(await answer(4, sealed(known)), 'transaction_rejected')
  t.equal(await answer(5, long), 'response_too_large')
  t.equal(await answer(6, bug), 'a bug')
  const ever = () => new Promise<never>(() => {})
  t.equal(await answer(7, sealed(ever), 20), 'outcome_unknown', 'its time is over')
  t.equal(await answer(8, ever, 20), 'tool_timeout')
})
