import {
  mainKeyOfAdversaryAgent,
  adversaryPostRequest,
  pickUsableAdversaryKey,
  adversaryOperationWithKey,
  type AdversaryOperationGenerator,
  type AdversaryState,
} from './adversary-state.ts'

/** Operations that make calls and disconnect from streams. */

const STREAM = '/api/refuel/stream'
const REFUEL = '/api/refuel'

/** Programs that print their marker and then end in an unusual way. */
const PROGRAMS: readonly { language: string; code: (said: string) => string }[] = [
  {
    language: 'python',
    code: (said) =>
      `print("${said}", flush=True)\nopen("/tmp/result.json", "w").write("x")\nimport os\nos._exit(0)`,
  },
  {
    language: 'python',
    code: (said) => `print("${said}", flush=True)\nimport os\nos._exit(3)`,
  },
  { language: 'python', code: (said) => `print("${said}")\n"${said}"` },
  { language: 'javascript', code: (said) => `console.log("${said}"); throw new Error("done")` },
  { language: 'bash', code: (said) => `echo ${said}; exit 9` },
]

/** Never ends by itself, so a disconnect always finds it running. */
const ENDLESS_PROGRAM = {
  language: 'javascript',
  code: (said: string) => `console.log("${said}"); for (;;) {}`,
}

const agentOf = ({ chance, agents }: AdversaryState) => chance.pick(agents)

function program(world: AdversaryState, cut: boolean): object {
  const { language, code } = cut ? ENDLESS_PROGRAM : world.chance.pick(PROGRAMS)
  return {
    tool: 'code_sandbox',
    language,
    code: code(`said ${world.nextNumber()}`),
    timeout_ms: 400,
  }
}

/** Prints, then ends its interpreter or corrupts its result file. */
const printAndExit: AdversaryOperationGenerator = (world) => {
  const key = mainKeyOfAdversaryAgent(agentOf(world))
  return adversaryOperationWithKey(
    'sandbox exit',
    key,
    adversaryPostRequest(STREAM, program(world, false)),
  )
}

/** Reads the output of a program, then disconnects. */
const printAndCut: AdversaryOperationGenerator = (world) => {
  const key = mainKeyOfAdversaryAgent(agentOf(world))
  return adversaryOperationWithKey('sandbox cut', key, {
    ...adversaryPostRequest(STREAM, program(world, true)),
    cut: true,
  })
}

/** Assets whose prices are not cached yet. */
const ASSETS = ['ADA', 'DOT', 'LINK', 'UNI', 'AAVE', 'ATOM', 'NEAR', 'ARB', 'OP', 'LTC', 'XLM']
const CLAIMS = ['2 + 2 = 4', '7 * 6 = 41', '2024 was a leap year']

/** Reads the verdicts of free checks, then disconnects. */
const cutPill: AdversaryOperationGenerator = (world) => {
  const { chance } = world
  const key = mainKeyOfAdversaryAgent(agentOf(world))
  const claims = [chance.pick(CLAIMS), `The price of ${chance.pick(ASSETS)} is 2 USD`]
  const body = { tool: 'hallucination_pill', claims }
  return adversaryOperationWithKey('pill cut', key, {
    ...adversaryPostRequest(STREAM, body),
    cut: true,
  })
}

const cutSearch: AdversaryOperationGenerator = (world) => {
  const key = mainKeyOfAdversaryAgent(agentOf(world))
  const body = { tool: 'web_search', query: `gas fees ${world.nextNumber()}` }
  return adversaryOperationWithKey('search cut', key, {
    ...adversaryPostRequest(STREAM, body),
    cut: true,
  })
}

function limitsOf(
  { chance }: AdversaryState,
  agent: ReturnType<typeof agentOf>,
): Record<string, string> {
  const dice = chance.integer(1, 4)
  const [task, backpack] = [agent.tasks.at(-1), agent.backpacks.at(-1)]
  if (dice === 1 && task !== undefined) return { 'x-task-id': task }
  if (dice === 2 && backpack !== undefined) return { 'x-backpack-id': backpack.id }
  return {}
}

/** A cheap call with or without a task or a Backpack. */
const cheapCall: AdversaryOperationGenerator = (world) => {
  const { chance, agents } = world
  const agent = agentOf(world)
  const key = pickUsableAdversaryKey(world, agent)
  const ping = { tool: 'agent_ping', target_agent_id: chance.pick(agents).id, message: 'ping' }
  const body = chance.pick([
    { tool: 'hive_trending' },
    { tool: 'hive_trending', limit: 3 },
    { tool: 'hive_read', query: 'gas on weekends' },
    { tool: 'x402_parse', body: { x402Version: 1, accepts: [], error: 'pay' } },
    ping,
  ])
  const headers = key.backpack === null ? limitsOf(world, agent) : {}
  return adversaryOperationWithKey('call', key, adversaryPostRequest(REFUEL, body, headers))
}

const repeatedCall: AdversaryOperationGenerator = (world) => {
  const key = pickUsableAdversaryKey(world, agentOf(world))
  const headers = { 'idempotency-key': `call-${world.chance.integer(1, 40)}` }
  const operation = adversaryOperationWithKey(
    'call with key',
    key,
    adversaryPostRequest(REFUEL, { tool: 'hive_trending' }, headers),
  )
  world.repeatable.push(operation)
  return operation
}

/** A call over a WebSocket. */
const socketCall: AdversaryOperationGenerator = (world) => {
  const key = pickUsableAdversaryKey(world, agentOf(world))
  const frame = { type: 'refuel', tool: 'hive_trending' }
  return adversaryOperationWithKey('socket call', key, { method: 'GET', path: '/api/ws', frame })
}

const pipeline: AdversaryOperationGenerator = (world) => {
  const key = pickUsableAdversaryKey(world, agentOf(world))
  const calls = Array.from({ length: world.chance.integer(1, 4) }, () => ({
    tool: 'hive_trending',
  }))
  return adversaryOperationWithKey(
    'pipeline',
    key,
    adversaryPostRequest('/api/pipeline', { calls }),
  )
}

/** Calls, and streams that are cut after delivery. */
export const adversaryCallOperationGenerators: Readonly<
  Record<string, AdversaryOperationGenerator>
> = {
  printAndExit,
  printAndCut,
  cutPill,
  cutSearch,
  cheapCall,
  socketCall,
  repeatedCall,
  pipeline,
}
