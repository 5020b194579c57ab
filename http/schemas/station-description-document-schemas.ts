import { Type, type TSchema } from 'typebox'
import { DateTimeSchema, Nullable } from './shared-schemas.ts'

/** Schemas of the documents that describe the station to agents. */

const Text = Type.String()
const Texts = Type.Array(Text)
const Url = Type.String({ format: 'uri' })
const Usdc = Type.Number({ minimum: 0, description: 'USDC.' })
const Rate = Type.Number({ minimum: 0, maximum: 1, description: 'A share, 0 to 1.' })
const Links = Type.Record(Text, Url)
const Prices = Type.Record(Text, Usdc)
const Headers = Type.Record(Text, Text)
const Body = Type.Object({}, { additionalProperties: true })
const SchemaVersion = Type.Literal('1.0')

const requestOf = (members: Readonly<Record<string, TSchema>> = {}) =>
  Type.Object({
    ...members,
    method: Type.Enum(['GET', 'POST']),
    url: Url,
    headers: Headers,
    body: Type.Optional(Body),
  })

export const AgentWelcomeSchema = Type.Object({
  schema_version: SchemaVersion,
  name: Text,
  version: Text,
  purpose: Text,
  onboarding: Type.Object({
    request: requestOf(),
    answer: Text,
    starter_credits_usdc: Usdc,
    per_hour_per_address: Type.Integer(),
  }),
  first_requests: Type.Array(requestOf({ about: Text }), {
    description: 'Requests that run as they are; `<api_key>` is the key of the onboarding.',
  }),
  payment: Type.Object({ rails: Texts, deposits: Type.Enum(['on', 'off']), unpaid: Text }),
  tools: Type.Object({ total: Type.Integer(), free: Type.Integer(), url: Url }),
  limits: Type.Object({
    calls_per_second: Type.Integer(),
    calls_burst: Type.Integer(),
    body_bytes: Type.Integer(),
    tool_output_bytes: Type.Integer(),
    pipeline_calls: Type.Integer(),
    more: Url,
  }),
  links: Links,
})

export const ApiConventionsSchema = Type.Object({
  schema_version: SchemaVersion,
  version: Text,
  auth: Type.Object({
    header: Text,
    alternative: Text,
    format: Type.String({ description: 'A regular expression that every key matches.' }),
    onboard: Url,
    bound_keys: Text,
  }),
  request_headers: Headers,
  errors: Type.Object({
    media_type: Text,
    standard: Text,
    act_on: Text,
    members: Texts,
    codes: Url,
    retry: Type.Record(Text, Text),
  }),
  idempotency: Type.Object({
    header: Text,
    hours: Type.Integer(),
    replayed: Text,
    other_body: Text,
    in_flight: Text,
  }),
  paging: Type.Object({
    parameters: Texts,
    limit_default: Type.Integer(),
    limit_max: Type.Integer(),
    next: Text,
    order: Text,
  }),
  money: Type.Object({ unit: Text, type: Text, names: Text, calls_are_charged: Text }),
  time: Type.Object({ format: Text, windows: Text }),
  events: Type.Object({
    webhooks: Type.Object({ standard: Text, headers: Texts, types: Texts, register: Url }),
    websocket: Type.Object({ url: Url, subprotocol: Text, resume: Text }),
    server_sent_events: Type.Array(Url),
  }),
  rate_limits: Type.Object({
    headers: Texts,
    buckets: Type.Record(Text, Type.Object({ perSecond: Type.Number(), burst: Type.Integer() })),
  }),
  versions: Type.Object({ changes: Text, headers: Texts, whats_new: Url }),
})

export const PricingSchema = Type.Object({
  schema_version: SchemaVersion,
  currency: Type.Literal('USDC'),
  tools: Type.Array(
    Type.Object({
      slug: Text,
      category: Text,
      access: Type.Enum(['paid', 'free', 'free_with_key']),
      price_usdc: Usdc,
      free_tier: Nullable(
        Type.Object({
          calls_per_day: Nullable(Type.Integer()),
          overage_price_usdc: Nullable(Usdc),
        }),
      ),
      docs_url: Url,
    }),
  ),
  operations: Prices,
  crews: Prices,
  memory_packs: Prices,
  fees: Type.Object({
    platform_rate: Rate,
    tip_rate: Rate,
    send_rate: Rate,
    strategy_author_usdc: Usdc,
  }),
  credits: Type.Object({
    starter_usdc: Usdc,
    first_deposit_bonus_rate: Rate,
    first_deposit_bonus_max_usdc: Usdc,
    minimum_deposit_usdc: Usdc,
    minimum_bounty_usdc: Usdc,
    referral_reward_usdc: Usdc,
    referral_share_rate: Rate,
  }),
})

export const StorefrontSchema = Type.Object({
  schema_version: SchemaVersion,
  currency: Type.Literal('USDC'),
  items: Type.Array(
    Type.Object({
      id: Type.String({ description: 'The kind and a name, with a colon between them.' }),
      kind: Type.Enum(['tool', 'crew', 'pack', 'bundle', 'pass', 'listing', 'service']),
      name: Text,
      price_usdc: Usdc,
      key_required: Type.Boolean(),
      you_get: Text,
      request: Type.Object({ method: Type.Literal('POST'), url: Url, body: Body }),
    }),
  ),
  count: Type.Integer(),
  pay_with: Type.Object({ credits: Url, without_a_key: Text }),
  links: Links,
})

export const WhatsNewSchema = Type.Object({
  schema: Type.Literal('gas/whats-new/v1'),
  version: Text,
  releases: Type.Array(
    Type.Object({
      version: Text,
      released_on: Nullable(Type.String({ format: 'date' })),
      notes: Type.Array(Type.Object({ about: Text, text: Text })),
    }),
  ),
  catalogue: Type.Array(
    Type.Object({
      revision: Type.Integer({ minimum: 1 }),
      at: DateTimeSchema,
      version: Text,
      changes: Type.Array(
        Type.Object({
          slug: Text,
          change: Type.Enum(['added', 'changed', 'removed']),
          fields: Texts,
        }),
      ),
    }),
  ),
  links: Links,
})
