import type { CallDeps, CallRequest, HiveExcerpt } from './call-types.ts'
import type { JsonFields } from './tool-input.ts'
import type { CallPlan } from './call-plan.ts'

/** What a call is about, where a tool's input says so in words. */
const TOPICS = ['query', 'thesis', 'topic', 'claim', 'prompt', 'task'] as const
const MAX_TOPIC_CHARS = 200
/** After its tool a call waits no longer for the Hive. */
const HIVE_TIMEOUT_MS = 8

/**
 * Begins to look for entries that match a call (decision 61), beside its tool and never before it. What
 * is not there soon after the tool is left out. A call in stealth is not looked up at all.
 */
export function startHiveEnrichment(
  parts: Pick<CallDeps, 'lookInHive'>,
  { request, tool, input }: CallPlan,
): () => Promise<readonly HiveExcerpt[]> {
  const topic = tool.category === 'memory' ? null : topicOf(request, input)
  if (topic === null) return NO_HIVE_EXCERPTS
  const found = parts.lookInHive(topic).catch(() => [])
  return () => Promise.race([found, timeOutEmpty()])
}

const NO_HIVE_EXCERPTS = async () => []

function topicOf({ ghost }: CallRequest, input: JsonFields): string | null {
  if (ghost === 'stealth') return null
  const name = TOPICS.find((one) => typeof input[one] === 'string')
  const text = name === undefined ? '' : String(input[name]).trim()
  return text === '' || text.length > MAX_TOPIC_CHARS ? null : text
}

const timeOutEmpty = () =>
  new Promise<readonly HiveExcerpt[]>((resolve) => {
    setTimeout(() => resolve([]), HIVE_TIMEOUT_MS)
  })
