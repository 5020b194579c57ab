import type { CallParts, CallRequest, HiveNote } from './calls.ts'
import type { AnyJson } from './fields.ts'
import type { Plan } from './plan.ts'

/** What a call is about, where a tool's input says so in words. */
const TOPICS = ['query', 'thesis', 'topic', 'claim', 'prompt', 'task'] as const
const LONGEST_TOPIC = 200
/** After its tool a call waits no longer for the Hive. */
const PATIENCE_MS = 8

/**
 * Begins to look for entries that match a call (decision 61), beside its tool and never before it. What
 * is not there soon after the tool is left out. A call in stealth is not looked up at all.
 */
export function beginLook(
  parts: Pick<CallParts, 'lookInHive'>,
  { request, tool, input }: Plan,
): () => Promise<readonly HiveNote[]> {
  const topic = tool.category === 'memory' ? null : topicOf(request, input)
  if (topic === null) return NOTHING
  const found = parts.lookInHive(topic).catch(() => [])
  return () => Promise.race([found, soon()])
}

const NOTHING = async () => []

function topicOf({ ghost }: CallRequest, input: AnyJson): string | null {
  if (ghost === 'stealth') return null
  const name = TOPICS.find((one) => typeof input[one] === 'string')
  const text = name === undefined ? '' : String(input[name]).trim()
  return text === '' || text.length > LONGEST_TOPIC ? null : text
}

const soon = () =>
  new Promise<readonly HiveNote[]>((resolve) => {
    setTimeout(() => resolve([]), PATIENCE_MS)
  })
