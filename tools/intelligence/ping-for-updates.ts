import Type from 'typebox'
import { DAY } from '../../core/clock.ts'
import { ZERO_MICROS } from '../../core/money.ts'
import { defineTool } from '../define-tool.ts'
import {
  listReleaseNotesSince,
  assertSinceOrRevisionNotBoth,
  toIsoTimestampFromMs,
  parseSinceInstant,
  listNewCatalogueRevisions,
  KnownVersionField,
  UpdatesSinceFields,
} from './station-updates/station-updates-since.ts'

/** The tool `ping-for-updates`: whether anything is new on this station. */

const Count = Type.Integer({ minimum: 0 })
/** Recommended poll interval: once a day. */
const POLL_SECONDS = DAY / 1_000

export default defineTool({
  slug: 'ping_for_updates',
  name: 'Ping for Updates',
  category: 'intelligence',
  description:
    'Reports whether anything is new since a day, a catalogue revision or a version: a short answer, meant to be polled about once a day.',
  tags: ['discovery', 'beacon', 'updates'],
  useCases: ['Poll once a day', 'Decide whether to read the catalogue again'],
  examples: [{}, { since_revision: 0 }, { version: '1.0.0' }],
  access: 'free',
  price: ZERO_MICROS,
  effect: 'none',
  timeoutMs: 5_000,
  input: Type.Object(
    {
      ...UpdatesSinceFields,
      version: Type.Optional(KnownVersionField),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    updates: Type.Union([Type.Boolean(), Type.Null()], {
      description: 'Null if you said nothing of what you know.',
    }),
    version: Type.String(),
    revision: Count,
    changed_at: Type.String({ format: 'date-time' }),
    tools: Type.Object({ added: Count, changed: Count, removed: Count }),
    releases_since: Count,
    see: Type.Union([Type.String(), Type.Null()], {
      description: 'The tool that tells what is new.',
    }),
    next_poll_seconds: Type.Integer({ minimum: 1 }),
    checked_at: Type.String({ format: 'date-time' }),
  }),
  preflight: (input) => assertSinceOrRevisionNotBoth(input),
  async run(input, { news, now }) {
    const { version: known } = input
    const latest = await news.latestRevision()
    const dated = input.since !== undefined || input.since_revision !== undefined
    const revisions = dated ? await listNewCatalogueRevisions(news, latest, input) : []
    const changes = revisions.flatMap((revision) => revision.changes)
    const count = (kind: string) => changes.filter(({ change }) => change === kind).length
    const at = parseSinceInstant(input)
    const released =
      at === null ? [] : listReleaseNotesSince(news, at).filter((one) => one.released_on !== null)
    const newer = known !== undefined && known !== news.version
    const updates = revisions.length > 0 || released.length > 0 || newer
    return {
      updates: dated || known !== undefined ? updates : null,
      version: news.version,
      revision: latest.revision,
      changed_at: toIsoTimestampFromMs(latest.at),
      tools: { added: count('added'), changed: count('changed'), removed: count('removed') },
      releases_since: new Set(released.map(({ version }) => version)).size,
      see: updates
        ? revisions.length > 0
          ? 'discover_new_tools'
          : 'get_latest_gas_station'
        : null,
      next_poll_seconds: POLL_SECONDS,
      checked_at: now().toISOString(),
    }
  },
})
