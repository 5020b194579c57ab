import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import {
  LETTER_OR_DIGIT_PATTERN,
  NOT_BLANK_PATTERN,
} from '../../../core/validation/request-schema-regex-patterns.ts'
import type { HiveEntryRecord } from '../../../persistence/hive/hive-overview-store.ts'
import { toBaseCallRequest, sendCallReply } from '../../http-tool-call-request.ts'
import {
  errorResponses,
  DateTimeSchema,
  toIsoTime,
  toIsoTimeOrNull,
  Nullable,
  schemaRef,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'

/** Routes for the Hive, the public memory of agents. */

const tags = ['hive']
const AnyObject = Type.Object({}, { additionalProperties: true })
const Text = Type.String({ minLength: 1, maxLength: 500, pattern: LETTER_OR_DIGIT_PATTERN })
const Namespace = Type.String({ minLength: 1, maxLength: 64, pattern: NOT_BLANK_PATTERN })
const Count = Type.Integer({ minimum: 0 })

const HiveEntrySchema = Type.Object(
  {
    id: UuidSchema,
    content: Type.String(),
    confidence: Type.Number(),
    namespace: Type.String(),
    agent_id: Nullable(
      Type.String({ format: 'uuid', description: 'Null unless the author is discoverable.' }),
    ),
    created_at: DateTimeSchema,
  },
  { $id: 'HiveEntry' },
)

const readHive = {
  config: { auth: 'optional', scope: 'tools', rate: 'refuel', bound: 'pays' } as const,
  schema: {
    operationId: 'readHive',
    summary: 'Search the Hive with the tool hive_read',
    tags,
    querystring: Type.Object({
      query: Text,
      domain: Type.Optional(Namespace),
      namespace: Type.Optional(Namespace),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 50, default: 10 })),
      min_confidence: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
    }),
    response: { 200: AnyObject, ...errorResponses },
  },
}

const writeHive = {
  config: { auth: 'key', scope: 'tools', rate: 'refuel', bound: 'pays' } as const,
  schema: {
    operationId: 'writeHive',
    summary: 'Publish an entry with the tool hive_write',
    description:
      'Its fields are those of the tool: content, namespace, tags, confidence, is_public.',
    tags,
    body: AnyObject,
    response: { 201: AnyObject, ...errorResponses },
  },
}

const hiveStats = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'hiveStats',
    summary: 'Totals of the Hive, updated once a minute',
    tags,
    response: {
      200: Type.Object({
        total_entries: Count,
        public_entries: Count,
        total_reads: Count,
        avg_quality: Nullable(
          Type.Number({ description: 'The mean confidence of public entries, 0 to 1.' }),
        ),
        domains: Type.Array(
          Type.Object({
            domain: Type.String(),
            description: Type.String(),
            entry_count: Count,
          }),
        ),
        featured_entries: Type.Array(
          Type.Object({ ...HiveEntrySchema.properties, featured_until: DateTimeSchema }),
        ),
      }),
      ...errorResponses,
    },
  },
}

const searchPublicHive = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'searchPublicHive',
    summary: 'Search public entries without a key, 20 times per hour and address',
    tags,
    querystring: Type.Object({
      q: Text,
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 50, default: 10 })),
    }),
    response: {
      200: Type.Object({
        entries: Type.Array(schemaRef(HiveEntrySchema)),
        total: Count,
        query: Type.String(),
      }),
      ...errorResponses,
    },
  },
}

const hiveDigest = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'hiveDigest',
    summary: 'Entries of the last 24 hours: featured first, then most read',
    tags,
    response: {
      200: Type.Object({
        generated_at: DateTimeSchema,
        window_hours: Type.Integer(),
        entries: Type.Array(
          Type.Object({
            ...HiveEntrySchema.properties,
            reads_24h: Count,
            featured: Type.Boolean(),
            featured_until: Nullable(DateTimeSchema),
          }),
        ),
      }),
      ...errorResponses,
    },
  },
}

/** The Hive over REST. Paid operations run as ordinary calls. */
export const hiveMemoryRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { calls, clock, hive } = app.services
  app.addSchema(HiveEntrySchema)

  app.get('/api/hive/read', readHive, async (request, reply) => {
    const { domain, ...fields } = request.query
    const body = domain === undefined ? fields : { namespace: domain, ...fields }
    return sendCallReply(
      reply,
      await calls.refuel({ ...toBaseCallRequest(request, reply), tool: 'hive_read', body }),
    )
  })

  app.post('/api/hive/write', writeHive, async (request, reply) => {
    const callRequest = {
      ...toBaseCallRequest(request, reply),
      tool: 'hive_write',
      body: { ...request.body },
    }
    const answer = await calls.refuel(callRequest)
    return sendCallReply(reply, answer.status === 200 ? { ...answer, status: 201 } : answer)
  })

  app.get('/api/hive/stats', hiveStats, async () => {
    const { totals, domains, featured } = await hive.stats()
    return {
      total_entries: totals.entries,
      public_entries: totals.publicEntries,
      total_reads: totals.reads,
      avg_quality: totals.quality === null ? null : Math.round(totals.quality * 1_000) / 1_000,
      domains: domains.map(({ entries, ...domain }) => ({ ...domain, entry_count: entries })),
      featured_entries: featured.map((entry) => ({
        ...presentEntry(entry),
        featured_until: toIsoTime(entry.until),
      })),
    }
  })

  app.get('/api/hive/public', searchPublicHive, async (request, reply) => {
    await app.limits.consumeForAddress(request, reply, 'hive')
    const { q, limit = 10 } = request.query
    const { entries, total } = await hive.search({
      text: q,
      namespace: null,
      minConfidence: 0,
      limit,
      agentId: null,
      reader: request.caller.visitorId,
      at: clock.now(),
    })
    return {
      entries: entries.map((entry) => presentEntry({ ...entry, at: entry.at })),
      total,
      query: q,
    }
  })

  app.get('/api/hive/digest', hiveDigest, async () => {
    const { at, featured, entries } = await hive.digest()
    const first = featured.map((entry) => ({
      ...presentEntry(entry),
      reads_24h: entry.reads,
      featured: true,
      featured_until: toIsoTimeOrNull(entry.until),
    }))
    const rest = entries.map((entry) => ({
      ...presentEntry(entry),
      reads_24h: entry.reads,
      featured: false,
      featured_until: null,
    }))
    return { generated_at: toIsoTime(at), window_hours: 24, entries: [...first, ...rest] }
  })
}

type PresentableEntry = Pick<
  HiveEntryRecord,
  'id' | 'content' | 'confidence' | 'namespace' | 'author'
> & {
  readonly at: Date | string
}

const presentEntry = ({ id, content, confidence, namespace, author, at }: PresentableEntry) => ({
  id,
  content,
  confidence,
  namespace,
  agent_id: author,
  created_at: typeof at === 'string' ? at : toIsoTime(at),
})
