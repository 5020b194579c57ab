import { PublicAuthorField } from '../public-author-field.ts'
import Type from 'typebox'
import { utcDay } from '../../core/clock.ts'
import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../core/limits.ts'
import { fromUsdc, ZERO_MICROS } from '../../core/money.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { defineTool, type ToolContext } from '../define-tool.ts'

/** The tool `hive-watch`: watches the Hive for new entries. */

const PRICE = fromUsdc(0.02)
const Instant = Type.String({ format: 'date-time' })
const Uuid = Type.String({ format: 'uuid' })

const Watch = Type.Object({
  watch_id: Uuid,
  keyword: Type.String(),
  namespace: Type.Union([Type.String(), Type.Null()]),
  created_at: Instant,
  matches: Type.Integer({ minimum: 0, description: 'Counted up to 1,000.' }),
})
const Match = Type.Object({
  watch_id: Uuid,
  matched_at: Instant,
  entry: Type.Object({
    id: Uuid,
    content: Type.String(),
    confidence: Type.Number(),
    namespace: Type.String(),
    agent_id: PublicAuthorField,
    created_at: Instant,
  }),
})

interface Input {
  readonly action: 'subscribe' | 'list' | 'unsubscribe' | 'matches'
  readonly keyword?: string
  readonly namespace?: string
  readonly watch_id?: string
  readonly cursor?: string
  readonly limit?: number
}

export default defineTool({
  slug: 'hive_watch',
  name: 'Hive Watch',
  category: 'memory',
  description: `Watches the Hive for new public entries with all words of a keyword: subscribe, list, unsubscribe, matches. At most ${LIMITS.hiveWatches} watches; only subscribing costs.`,
  tags: ['hive', 'alerts', 'feed'],
  useCases: ['Hear of new findings on a topic', 'Follow a namespace'],
  examples: [
    { action: 'subscribe', keyword: 'flashblocks', namespace: 'base' },
    { action: 'list' },
  ],
  access: 'paid',
  keyRequired: true,
  price: ({ action }) => (action === 'subscribe' ? PRICE : ZERO_MICROS),
  effect: 'internal',
  timeoutMs: 8_000,
  input: Type.Object(
    {
      action: Type.Enum(['subscribe', 'list', 'unsubscribe', 'matches']),
      keyword: Type.Optional(
        Type.String({
          minLength: 2,
          maxLength: 100,
          pattern: NOT_BLANK_PATTERN,
          description: 'For subscribe.',
        }),
      ),
      namespace: Type.Optional(
        Type.String({ minLength: 1, maxLength: 64, pattern: NOT_BLANK_PATTERN }),
      ),
      watch_id: Type.Optional(
        Type.String({
          format: 'uuid',
          description: 'For unsubscribe; limits matches to this watch.',
        }),
      ),
      cursor: Type.Optional(
        Type.String({ pattern: '^\\d{1,18}$', description: 'For matches: only those after it.' }),
      ),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 50, default: 20 })),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    action: Type.String(),
    watch: Type.Optional(Watch),
    watches: Type.Optional(Type.Array(Watch)),
    matches: Type.Optional(Type.Array(Match)),
    next_cursor: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    watch_id: Type.Optional(Uuid),
    status: Type.Optional(Type.Enum(['subscribed', 'removed'])),
  }),
  async preflight(input, { caller, hiveBoard }) {
    if (input.action === 'subscribe') {
      if (input.keyword === undefined) throw invalidInputError('/keyword', 'is needed to subscribe')
      if (!(await hiveBoard.isWatchable(input.keyword)))
        throw invalidInputError('/keyword', 'has no searchable word')
    }
    if (input.action === 'unsubscribe' && input.watch_id === undefined)
      throw invalidInputError('/watch_id', 'is needed to unsubscribe')
    if (input.watch_id === undefined || caller.agentId === null) return
    const wanted = input.watch_id.toLowerCase()
    if (!(await hiveBoard.hasWatch(caller.agentId, wanted)))
      throw new ServiceError('watch_not_found', { watch_id: wanted })
  },
  async run(input, context) {
    switch (input.action) {
      case 'subscribe':
        return subscribe(input, context)
      case 'unsubscribe':
        return unsubscribe(input, context)
      case 'matches':
        return matches(input, context)
      default:
        return list(context)
    }
  },
})

function subscribe(
  { keyword = '', namespace }: Input,
  { caller, callId, now, stage }: ToolContext,
) {
  const at = now()
  const watch = {
    watch_id: newUuidV7(at.getTime()),
    keyword: keyword.trim().toLowerCase(),
    namespace: namespace?.toLowerCase() ?? null,
    created_at: at.toISOString(),
  }
  stage.row('hive_watches', { ...watch, agent_id: caller.agentId, call_id: callId, ended_at: null })
  stage.watch({ type: 'BEGIN', watchId: watch.watch_id })
  return {
    action: 'subscribe',
    status: 'subscribed' as const,
    watch_id: watch.watch_id,
    watch: { ...watch, matches: 0 },
  }
}

function unsubscribe({ watch_id = '' }: Input, { caller, now, stage }: ToolContext) {
  const watchId = watch_id.toLowerCase()
  const row = { watch_id: watchId, agent_id: caller.agentId, at: now().toISOString() }
  stage.row('hive_watch_closures', row)
  stage.watch({ type: 'END', watchId })
  return { action: 'unsubscribe', status: 'removed' as const, watch_id: watchId }
}

async function list({ caller, hiveBoard }: ToolContext) {
  const watches = await hiveBoard.watchesOf(caller.agentId ?? '')
  return {
    action: 'list',
    watches: watches.map((watch) => ({
      watch_id: watch.watchId,
      keyword: watch.keyword,
      namespace: watch.namespace,
      created_at: watch.createdAt,
      matches: watch.matches,
    })),
  }
}

/** Returns new matches; each entry shown counts as a read. */
async function matches({ watch_id, cursor, limit = 20 }: Input, context: ToolContext) {
  const { caller, callId, ghost, hive, hiveBoard, now, stage } = context
  const at = now().getTime()
  const reader = caller.agentId ?? ''
  const found = await hiveBoard.matchesOf({
    agentId: reader,
    watchId: watch_id?.toLowerCase() ?? null,
    after: cursor ?? null,
    limit,
    at,
  })
  const read = new Set<string>()
  for (const [place, { entry }] of found.entries()) {
    if (!entry.firstReadToday || read.has(entry.id)) continue
    read.add(entry.id)
    stage.row('hive_reads', {
      entry_id: entry.id,
      reader,
      has_key: true,
      call_id: callId,
      day: utcDay(at),
      ghost: ghost !== 'off',
      place: place + 1,
      owes_promo: hive.promoRoyalties,
      at: new Date(at).toISOString(),
    })
  }
  const shown = found.map(({ watchId, matchedAt, entry }) => ({
    watch_id: watchId,
    matched_at: matchedAt,
    entry: {
      id: entry.id,
      content: entry.content,
      confidence: entry.confidence,
      namespace: entry.namespace,
      agent_id: entry.author,
      created_at: entry.at,
    },
  }))
  return { action: 'matches', matches: shown, next_cursor: found.at(-1)?.cursor ?? cursor ?? null }
}
