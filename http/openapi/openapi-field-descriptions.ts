import type { JsonSchema, OpenApiDocument, OpenApiOperation } from './openapi-document-types.ts'

/** Descriptions of parameters and request fields by their name, for schemas without one of their own. */

const DESCRIPTIONS: Readonly<Record<string, string>> = {
  id: 'The id of the object.',
  limit: 'How many entries a page has at most.',
  status: 'Only entries in this state.',
  state: 'Only entries in this state.',
  tool: 'The slug of a tool.',
  agent_id: 'The id of an agent.',
  agentId: 'The id of an agent.',
  q: 'What to look for, in words.',
  query: 'What to look for, in words.',
  key: 'The name of the entry.',
  code: 'The code.',
  token: 'The token.',
  referral_code: 'The code of the agent that referred you.',
  slug: 'The slug.',
  entry_id: 'The id of an entry.',
  pack_id: 'The id of a listing.',
  stars: 'How good it is, 1 to 5.',
  pass: 'Which pass.',
  task_id: 'The id of a task; the newest active one if absent.',
  backpack_id: 'The id of a Backpack.',
  receipt: 'The receipt from `_meta` of a reply.',
  format: 'The form of the answer.',
  fleet_id: 'The id of a fleet.',
  role: 'Your part in it.',
  domain: 'The domain or namespace, a topic such as `base`.',
  namespace: 'The namespace, a topic such as `base`.',
  min_confidence: 'Only entries whose authors were at least this sure, 0 to 1.',
  type: 'Only entries of this type.',
  tag: 'Only entries with this tag.',
  success: 'Only calls that succeeded, or only those that failed.',
  name: 'A name.',
  delivery: 'The id of the delivery.',
  description: 'A text for people and agents.',
  framework: 'The framework that the agent is built with.',
  tool_category: 'The category of tools that the agent needs most.',
  preferred_payment: 'How the agent prefers to pay.',
  contact_email:
    'An e-mail address of the owner; opt-in. Once confirmed, a link to it signs in at /owner.',
  owner_email: 'The e-mail address of the owner, alerted when credits run low.',
  owner_telegram: 'The numeric chat id of the owner, alerted when credits run low.',
  source: 'Where the agent heard of this station.',
  agents: 'The agents to onboard.',
  tools: 'The tools that are allowed.',
  per_call_usdc: 'The most that one call may cost, in USDC.',
  per_day_usdc: 'The most that a UTC day may cost, in USDC.',
  per_month_usdc: 'The most that a UTC month may cost, in USDC.',
  expiry_days: 'After how many days it expires.',
  wallet_address: 'The address of the wallet.',
  to_agent_id: 'The id of the agent that receives it.',
  memo: 'A note for both sides, in one line.',
  note: 'A note for the receiver, in one line.',
  message: 'The text.',
  subject: 'The subject, in one line.',
  tx_hash: 'The hash of the transaction.',
  title: 'A title in one line.',
  min_quality_score: 'The lowest score of content that is paid.',
  content: 'The text.',
  cap_usdc: 'The most that the key may ever spend, in USDC.',
  cap_per_day_usdc: 'The most that the key may spend in a UTC day.',
  cap_per_month_usdc: 'The most that the key may spend in a UTC month.',
  expires_at: 'When it expires.',
  expires_in_seconds: 'After how many seconds it expires.',
  key_id: 'The id of a key; that of the request if absent.',
  interval: 'How often it runs.',
  params: 'The fields of the tool.',
  write_to_hive: 'Whether results are published in the Hive.',
  enabled: 'Whether it runs.',
  pager: 'Where events of the Backpack are sent.',
  webhook_url: 'An https address that receives events.',
  hosts: 'The hosts that the secret may be sent to.',
  ttl_seconds: 'How long it is kept, in seconds.',
  events: 'The events to receive; all of them if absent.',
  webhook_id: 'The id of a webhook; all of them if absent.',
  category: 'The category.',
  file: 'The name of the file.',
}

/** Describes the parameters of an operation. */
export function describeOpenApiParameters(operation: OpenApiOperation): void {
  for (const parameter of operation.parameters ?? []) {
    if ('$ref' in parameter || parameter.description !== undefined) continue
    const text = DESCRIPTIONS[parameter.name]
    if (text !== undefined) parameter.description = text
  }
}

/** Describes the fields of all request bodies. */
export function describeOpenApiRequestFields({ components, paths }: OpenApiDocument): void {
  for (const item of Object.values(paths))
    for (const { requestBody } of Object.values(item)) {
      const { $ref } = requestBody?.content['application/json']?.schema ?? {}
      const schema = components.schemas[String($ref).replace(/^.*\//, '')]
      if (schema !== undefined) describeFields(schema)
    }
}

function describeFields(schema: JsonSchema): void {
  for (const [name, field] of Object.entries(
    (schema['properties'] ?? {}) as Record<string, object>,
  )) {
    const text = DESCRIPTIONS[name]
    if (text !== undefined && !('description' in field) && !('$ref' in field))
      Object.assign(field, { description: text })
    describeFields(field as JsonSchema)
  }
  for (const inner of [schema['items'], ...((schema['anyOf'] ?? []) as unknown[])])
    if (typeof inner === 'object' && inner !== null) describeFields(inner as JsonSchema)
}
