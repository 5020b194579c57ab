import Type from 'typebox'
import { ZERO_MICROS } from '../../core/money.ts'
import { defineTool } from '../define-tool.ts'
import {
  ReleaseNoteSchema,
  listReleaseNotesSince,
  toIsoTimestampFromMs,
  KnownVersionField,
} from './station-updates/station-updates-since.ts'
import type { CatalogueEntry } from '../tool-ports.ts'

/** The tool `get-latest-gas-station`: version and news of this station. */

const TOP_TOOLS = 5
const MAX_ANNOUNCEMENTS = 10
const Count = Type.Integer({ minimum: 0 })
const Text = Type.String()

/** Returns the unweighted mean of the measured tools; null before any call. */
function averageMeasurements(entries: readonly CatalogueEntry[]) {
  const rates = entries.flatMap(({ success_rate }) => success_rate ?? [])
  const times = entries.flatMap(({ avg_latency_ms }) => avg_latency_ms ?? [])
  const mean = (all: readonly number[]) => all.reduce((sum, one) => sum + one, 0) / all.length
  return {
    tools: rates.length,
    success_rate: rates.length === 0 ? null : Math.round(mean(rates) * 1e4) / 1e4,
    avg_latency_ms: times.length === 0 ? null : Math.round(mean(times)),
  }
}

function summarizeCatalogue(entries: readonly CatalogueEntry[]) {
  const prices = entries.map(({ price_usdc }) => price_usdc).filter((price) => price > 0)
  const categories = [...new Set(entries.map(({ category }) => category))].sort()
  return {
    total: entries.length,
    free: entries.filter(({ access }) => access !== 'paid').length,
    available: entries.filter(({ availability }) => availability.available).length,
    price_from_usdc: prices.length === 0 ? 0 : Math.min(...prices),
    price_to_usdc: Math.max(0, ...prices),
    categories: categories.map((category) => ({
      category,
      tools: entries.filter((one) => one.category === category).map(({ slug }) => slug),
    })),
  }
}

export default defineTool({
  slug: 'get_latest_gas_station',
  name: 'Latest Gas Station',
  category: 'intelligence',
  description:
    'Describes this station right now: its version, its catalogue with revision and prices, the most called tools, their reliability, and the announcements of its changelog.',
  tags: ['discovery', 'beacon', 'version'],
  useCases: ['Learn what this station offers', 'See whether your version is the latest'],
  examples: [{}, { known_version: '1.0.0' }],
  access: 'free',
  price: ZERO_MICROS,
  effect: 'none',
  timeoutMs: 5_000,
  input: Type.Object(
    {
      known_version: Type.Optional(KnownVersionField),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    name: Text,
    version: Text,
    released_on: Type.Union([Text, Type.Null()]),
    is_latest: Type.Union([Type.Boolean(), Type.Null()], {
      description: 'Whether the version you know is this one; null if you named none.',
    }),
    catalogue: Type.Object({
      revision: Count,
      changed_at: Type.String({ format: 'date-time' }),
      total: Count,
      free: Count,
      available: Type.Integer({
        minimum: 0,
        description: 'Tools available with the current configuration.',
      }),
      price_from_usdc: Type.Number(),
      price_to_usdc: Type.Number(),
      categories: Type.Array(Type.Object({ category: Text, tools: Type.Array(Text) })),
    }),
    called_most: Type.Array(Type.Object({ slug: Text, calls: Count }), {
      description: 'The strongest trends of the last 24 hours, with their public calls.',
    }),
    measured: Type.Object({
      tools: Count,
      success_rate: Type.Union([Type.Number(), Type.Null()]),
      avg_latency_ms: Type.Union([Type.Number(), Type.Null()]),
    }),
    announcements: Type.Array(ReleaseNoteSchema),
    endpoints: Type.Record(Text, Text),
  }),
  async run({ known_version: known }, { news, catalogue, hive }) {
    const [latest, trend] = await Promise.all([news.latestRevision(), hive.trending(TOP_TOOLS)])
    const entries = catalogue.entries()
    const { version, publicUrl: at } = news
    return {
      name: 'Gas Station',
      version,
      released_on: news.releases.find((one) => one.version === version)?.releasedOn ?? null,
      is_latest: known === undefined ? null : known === version,
      catalogue: {
        revision: latest.revision,
        changed_at: toIsoTimestampFromMs(latest.at),
        ...summarizeCatalogue(entries),
      },
      called_most: trend.tools.slice(0, TOP_TOOLS).map(({ slug, calls }) => ({ slug, calls })),
      measured: averageMeasurements(entries),
      announcements: listReleaseNotesSince(news, null).slice(0, MAX_ANNOUNCEMENTS),
      endpoints: {
        onboard: `${at}/api/onboard`,
        tools: `${at}/api/tools`,
        call: `${at}/api/refuel`,
        plan: `${at}/api/agent/plan`,
        openapi: `${at}/api/openapi.json`,
      },
    }
  },
})
