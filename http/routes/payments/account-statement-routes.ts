import { Readable } from 'node:stream'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { utcDay } from '../../../core/clock.ts'
import { LIMITS } from '../../../core/limits.ts'
import { toUsdc } from '../../../core/money.ts'
import type { AccountStatementPosition } from '../../../persistence/account-statement/account-statement-store.ts'
import { totalCreditBalance } from '../../../persistence/account-statement/account-statement-movements.ts'
import { PaginationQuery } from '../../schemas/pagination.ts'
import {
  errorResponses,
  DateTimeSchema,
  Nullable,
  ResponseUsdcAmountSchema,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'
import {
  decodeAccountStatementCursor,
  encodeAccountStatementCursor,
} from '../../account-statement/account-statement-cursor.ts'
import { generateAccountStatementCsv } from '../../account-statement/account-statement-csv.ts'
import {
  createAgentAccountStatementSource,
  createBackpackAccountStatementSource,
  toCreditBalancesUsdc,
  type AccountStatementSource,
} from '../../account-statement/account-statement-entry-pages.ts'
import { TimeRangeQuery, parseTimeRange } from '../../schemas/time-range.ts'

/** Routes for statements of account, as JSON and CSV. */

const NullableStringSchema = Nullable(Type.String())
const AmountPart = (description: string) => Type.Number({ description })

const BalancesSchema = Type.Object({
  promo_usdc: ResponseUsdcAmountSchema,
  cash_usdc: ResponseUsdcAmountSchema,
  held_usdc: AmountPart('Kept by durable holds of calls that run.'),
  total_usdc: AmountPart('All three: the sum of `amount_usdc` of all movements so far.'),
})

const MovementSchema = Type.Object({
  movement_id: UuidSchema,
  id: UuidSchema,
  kind: Type.String(),
  description: Type.String(),
  amount_usdc: AmountPart(
    'What came (above zero) or went (below): of the credits, held ones included.',
  ),
  promo_usdc: Nullable(AmountPart('The change of the promotional credits.')),
  cash_usdc: Nullable(AmountPart('The change of the cash.')),
  held_usdc: Nullable(
    AmountPart('The change of what is held: a hold moves credits, and spends none.'),
  ),
  fee_usdc: AmountPart(
    'The part of a tip or a purchase that the station took; `amount_usdc` includes it.',
  ),
  rail: NullableStringSchema,
  call_id: NullableStringSchema,
  tool: NullableStringSchema,
  task_id: NullableStringSchema,
  backpack_id: NullableStringSchema,
  counterparty: Type.Enum(['agent', 'bounty', 'fleet', 'station']),
  agent_id: NullableStringSchema,
  reference: Nullable(
    Type.String({
      description:
        'The transfer, bounty, listing, fleet, task pass, deposit or drop it belongs to.',
    }),
  ),
  memo: NullableStringSchema,
  balance: Nullable(BalancesSchema),
  spent_total_usdc: Nullable(AmountPart('Of a Backpack: what it had spent in all after this.')),
  created_at: DateTimeSchema,
})

const getStatement = {
  config: { auth: 'key', scope: 'read', bound: 'reads', ownerSession: true } as const,
  schema: {
    operationId: 'getStatement',
    summary: 'Every movement of your credits with its cause and the resulting balances',
    description: [
      'Latest first, in ledger order. All pages of one walk show the ledger as of the first page.',
      'A call that a task pass has paid is listed with an amount of 0.',
      'Calls paid on another rail move no credits; `GET /api/calls` lists them.',
      'With a key bound to a Backpack, lists its paid calls on every rail, with `spent_total_usdc` instead of `balance`.',
      'With `format=csv`, returns all movements after the cursor as a file.',
    ].join(' '),
    tags: ['funds'],
    querystring: Type.Object({
      limit: PaginationQuery.limit,
      cursor: Type.Optional(
        Type.String({ maxLength: 4_096, description: '`next_cursor` of the previous page' }),
      ),
      ...TimeRangeQuery,
      format: Type.Optional(Type.Enum(['json', 'csv'])),
    }),
    response: {
      200: Type.Object({
        backpack_id: NullableStringSchema,
        balance: Nullable(BalancesSchema),
        spent_total_usdc: Nullable(ResponseUsdcAmountSchema),
        movements: Type.Array(MovementSchema),
        count: Type.Integer(),
        next_cursor: NullableStringSchema,
      }),
      ...errorResponses,
    },
  },
}

/** The statement of an agent, or of the Backpack that its key is bound to. */
export const accountStatementRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app

  app.get('/api/agent/statement', getStatement, async (request, reply) => {
    const { agentId, query, apiKey } = request
    const bound = apiKey?.backpackId ?? null
    const lineage = services.realtime.lineage()
    const subject = { id: bound ?? agentId, timeBounds: parseTimeRange(query), lineage }
    const source =
      bound === null
        ? createAgentAccountStatementSource(services, agentId, subject)
        : createBackpackAccountStatementSource(services, agentId, bound, subject)
    const { limit = LIMITS.pageDefault, cursor } = query
    const walk =
      cursor === undefined ? await source.begin() : decodeAccountStatementCursor(subject, cursor)
    if (query.format === 'csv')
      return sendStatementCsv(reply, source, walk, csvFileName(subject.id, services))
    const { entries, next } = await source.page(walk, limit)
    return {
      backpack_id: bound,
      balance: bound === null ? toCreditBalancesUsdc(walk.balances) : null,
      spent_total_usdc: bound === null ? null : toUsdc(totalCreditBalance(walk.balances)),
      movements: entries,
      count: entries.length,
      next_cursor: next === null ? null : encodeAccountStatementCursor(subject, next),
    }
  })
}

const csvFileName = (id: string, { clock }: { readonly clock: { now(): number } }): string =>
  `statement-${id}-${utcDay(clock.now())}.csv`

function sendStatementCsv(
  reply: FastifyReply,
  source: AccountStatementSource,
  walk: AccountStatementPosition,
  name: string,
): never {
  reply
    .header('content-type', 'text/csv; charset=utf-8; header=present')
    .header('content-disposition', `attachment; filename="${name}"`)
  return reply.send(Readable.from(generateAccountStatementCsv(source, walk))) as never
}
