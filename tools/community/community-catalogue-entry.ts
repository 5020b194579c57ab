import { toUsdc } from '../../core/money.ts'
import { toPortableSchema } from '../../core/validation/portable-schema.ts'
import {
  isCallableCommunityToolState,
  type CommunityToolRecord,
} from '../../domain/community-tool-record.ts'
import { UNNAMED_AGENT } from '../public-author-field.ts'
import { withReason } from '../tool-availability.ts'
import type { CatalogueEntry } from '../tool-ports.ts'

/** Community tools as `GET /api/tools` shows them: what their builders say, and what was measured. */

/** Quality of a tool over the last seven days; null for a tool without counted calls. */
export interface CommunityToolWeeklyCallStats {
  readonly calls: number
  readonly successes: number
  readonly p50Ms: number
  readonly p95Ms: number
  readonly refunds: number
  readonly payers: number
  readonly schemaFailures: number
}

export function toCommunityCatalogueEntry(
  { record, quotedPrice }: { readonly record: CommunityToolRecord; readonly quotedPrice: bigint },
  figures: CommunityToolWeeklyCallStats | null,
  baseUrl: string,
): CatalogueEntry {
  const { slug, definition, state, review, builderName, builderId, acceptsPromo } = record
  const builder = record.isBuilderPublic
    ? { name: builderName, agent_id: builderId }
    : { name: UNNAMED_AGENT }
  return {
    slug,
    name: definition.name,
    category: definition.category,
    price_usdc: toUsdc(quotedPrice as Parameters<typeof toUsdc>[0]),
    description: definition.description,
    type: 'community',
    builder: { ...builder, verified: review === 'verified' },
    state,
    accepts_promo: acceptsPromo,
    next_price:
      record.nextPrice === null
        ? null
        : {
            price_usdc: toUsdc(record.nextPrice.price),
            from: new Date(record.nextPrice.from).toISOString(),
          },
    quality:
      figures === null
        ? null
        : {
            calls: figures.calls,
            success_rate: figures.calls === 0 ? null : figures.successes / figures.calls,
            p50_ms: figures.p50Ms,
            p95_ms: figures.p95Ms,
            refunds: figures.refunds,
            payers: figures.payers,
            schema_failures: figures.schemaFailures,
          },
    access: 'paid',
    key_required: false,
    acts_on_others: false,
    x402_compatible: true,
    free_tier: null,
    call_endpoint: `${baseUrl}/api/tools/${slug}/invoke`,
    docs_url: `${baseUrl}/api/tools/${slug}`,
    tags: ['community'],
    success_rate:
      figures === null || figures.calls === 0 ? null : figures.successes / figures.calls,
    avg_latency_ms: figures?.p50Ms ?? null,
    input_schema: toPortableSchema(definition.inputSchema),
    output_schema: toPortableSchema(definition.outputSchema),
    example_calls: definition.example === null ? [] : [{ tool: slug, ...definition.example }],
    use_cases: [],
    availability: withReason({
      available: isCallableCommunityToolState(state),
      mode: 'community',
      requires: [],
      providers: [],
    }),
  }
}
