import type { CallDeps, CallRequest, HiveExcerpt } from './call-request-and-reply-types.ts'
import type { JsonFields } from './tool-input-from-request-body.ts'
import type { ValidatedPricedCall } from './parse-and-price-call.ts'

/** Adds matching Hive entries to the result of a call. */

/** Input fields that describe a call's topic in words. */
const TOPICS = ['query', 'thesis', 'topic', 'claim', 'prompt', 'task'] as const
const MAX_TOPIC_CHARS = 200
/** Maximum wait for the Hive after the tool has finished. */
const HIVE_TIMEOUT_MS = 8

/**
 * Starts the look-up of matching entries (decision 61) in parallel with the tool. Late results are
 * dropped. Calls in stealth mode are not looked up.
 */
export function startHiveLookupForCall(
  parts: Pick<CallDeps, 'lookInHive'>,
  { request, tool, input }: ValidatedPricedCall,
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
