import { Readable } from 'node:stream'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { utcDay } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import { toUsdc } from '../../core/money.ts'
import type { Walk } from '../../persistence/statement.ts'
import { totalOf } from '../../persistence/statement-rows.ts'
import { Paging } from '../paging.ts'
import { failures, Instant, Nullable, Usdc, Uuid } from '../schemas.ts'
import { decodeWalk, encodeWalk } from '../statement-cursor.ts'
import { statementCsv } from '../statement-csv.ts'
import { agentSource, backpackSource, presentBalances, type Source } from '../statement.ts'
import { TimeRange, timeRange } from '../time-range.ts'

const Text = Nullable(Type.String())
const Part = (description: string) => Type.Number({ description })

const Balances = Type.Object({
  promo_usdc: Usdc,
  cash_usdc: Usdc,
  held_usdc: Part('Kept by durable holds of calls that run.'),
  total_usdc: Part('All three: the sum of `amount_usdc` of all movements so far.'),
})

const Movement = Type.Object({
  movement_id: Uuid,
  id: Uuid,
  kind: Type.String(),
  description: Type.String(),
  amount_usdc: Part('What came (above zero) or went (below): of the credits, held ones included.'),
  promo_usdc: Nullable(Part('The change of the promotional credits.')),
  cash_usdc: Nullable(Part('The change of the cash.')),
  held_usdc: Nullable(Part('The change of what is held: a hold moves credits, and spends none.')),
  fee_usdc: Part('The part of a tip that the station took; `amount_usdc` includes it.'),
  rail: Text,
  call_id: Text,
  tool: Text,
  task_id: Text,
  backpack_id: Text,
  counterparty: Type.Enum(['agent', 'bounty', 'fleet', 'station']),
  agent_id: Text,
  reference: Nullable(
    Type.String({ description: 'The transfer, bounty, fleet, deposit or drop it belongs to.' }),
  ),
  memo: Text,
  balance: Nullable(Balances),
  spent_total_usdc: Nullable(Part('Of a Backpack: what it had spent in all after this.')),
  created_at: Instant,
})

const getStatement = {
  config: { auth: 'key', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId: 'getStatement',
    summary: 'Every movement of your credits with its cause and the balances after it',
    description: [
      'The latest first, in the order of the ledger. All pages of one walk show the ledger as it was when its first page was read.',
      'Calls that were paid on another rail moved no credits: `GET /api/calls` has them.',
      'With a key that is bound to a Backpack, the paid calls of that Backpack by every rail, and `spent_total_usdc` in place of `balance`.',
      'With `format=csv` all movements behind the cursor, as a file.',
    ].join(' '),
    tags: ['funds'],
    querystring: Type.Object({
      limit: Paging.limit,
      cursor: Type.Optional(
        Type.String({ maxLength: 4_096, description: '`next_cursor` of the page before' }),
      ),
      ...TimeRange,
      format: Type.Optional(Type.Enum(['json', 'csv'])),
    }),
    response: {
      200: Type.Object({
        backpack_id: Text,
        balance: Nullable(Balances),
        spent_total_usdc: Nullable(Usdc),
        movements: Type.Array(Movement),
        count: Type.Integer(),
        next_cursor: Text,
      }),
      ...failures,
    },
  },
}

/** The statement of account of an agent, or of the Backpack its key is bound to. */
export const statementRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app

  app.get('/api/agent/statement', getStatement, async (request, reply) => {
    const { agentId, query, apiKey } = request
    const bound = apiKey?.backpackId ?? null
    const subject = { id: bound ?? agentId, span: timeRange(query) }
    const source =
      bound === null
        ? agentSource(services, agentId, subject)
        : backpackSource(services, agentId, bound, subject)
    const { limit = LIMITS.pageDefault, cursor } = query
    const walk = cursor === undefined ? await source.begin() : decodeWalk(subject, cursor)
    if (query.format === 'csv') return sendCsv(reply, source, walk, fileName(subject.id, services))
    const { entries, next } = await source.page(walk, limit)
    return {
      backpack_id: bound,
      balance: bound === null ? presentBalances(walk.balances) : null,
      spent_total_usdc: bound === null ? null : toUsdc(totalOf(walk.balances)),
      movements: entries,
      count: entries.length,
      next_cursor: next === null ? null : encodeWalk(subject, next),
    }
  })
}

const fileName = (id: string, { clock }: { readonly clock: { now(): number } }): string =>
  `statement-${id}-${utcDay(clock.now())}.csv`

function sendCsv(reply: FastifyReply, source: Source, walk: Walk, name: string): never {
  reply
    .header('content-type', 'text/csv; charset=utf-8; header=present')
    .header('content-disposition', `attachment; filename="${name}"`)
  return reply.send(Readable.from(statementCsv(source, walk))) as never
}
