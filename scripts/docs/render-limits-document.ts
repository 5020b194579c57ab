import { LIMITS, TOKEN_BUCKET_RATES } from '../../core/limits.ts'
import { toUsdc } from '../../core/money.ts'
import { MAX_CREDIT_AMOUNT } from '../../domain/pricing.ts'
import {
  CHARACTER_SINGULAR_AND_PLURAL,
  describeCountRange,
  describeAcceptedSchemaValues,
  type DescribableJsonSchema,
} from '../../core/validation/describe-json-schema.ts'
import { NATIVE_TOOLS } from '../../tools/tool-catalogue.ts'
import { markdownTable } from './write-generated-docs.ts'
import type { RegisteredRoute } from './list-routes.ts'

/** Writes the document of all upper bounds. */

type SchemaField = DescribableJsonSchema & { readonly items?: SchemaField }

const KIB = 1024

/** Larger input returns 413 `body_too_large`, headers 431, with `limit_bytes`. */
const SIZE_LIMITS: readonly [string, number][] = [
  ['A body', LIMITS.bodyBytes],
  ['A body of a pipeline or of `code_sandbox`, with a key', LIMITS.largeBodyBytes],
  ['All headers', LIMITS.headerBytes],
  ['A payment header', LIMITS.paymentHeaderBytes],
  ['The payload of a signal', LIMITS.signalPayloadBytes],
  ['The value of a clipboard entry', LIMITS.clipboardValueBytes],
  ['A secret of the keyring', LIMITS.keyringSecretBytes],
  ['`params` of a schedule', LIMITS.scheduleParamsBytes],
  ['`params` of a strategy', LIMITS.strategyParamsBytes],
  ['A frame of the WebSocket', LIMITS.frameBytes],
  ['The answer of a tool', LIMITS.toolOutputBytes],
]

/** More items return 409 `limit_reached`, or 400 within one request. */
const COUNT_LIMITS: readonly [string, number][] = [
  ['API keys', LIMITS.keys],
  ['Active tasks', LIMITS.activeTasks],
  ['Backpacks', LIMITS.backpacks],
  ['Entries of a clipboard', LIMITS.clipboardEntries],
  ['Secrets of a keyring', LIMITS.keyringSecrets],
  ['Schedules', LIMITS.schedules],
  ['Webhooks', LIMITS.webhooks],
  ['Entries of the registry of APIs', LIMITS.registeredApis],
  ['Watches of the Hive', LIMITS.hiveWatches],
  ['Members of a fleet', LIMITS.fleetMembers],
  ['Streams of a key', LIMITS.streamsPerKey],
  ['Streams of an agent', LIMITS.streamsPerAgent],
  ['Channels of a stream', LIMITS.streamChannels],
  ['Calls of a pipeline', LIMITS.pipelineCalls],
  ['Rows of a page', LIMITS.pageMax],
  ['Levels of JSON', LIMITS.jsonDepth],
  ['Fields of a body', LIMITS.jsonFields],
  ['Values of a body without a key, a field counting as three', LIMITS.jsonValues],
  ['The same with a key', LIMITS.jsonValuesWithKey],
  ['Values of an answer of a builder or a site', LIMITS.resultValues],
  ['Different names of its fields', LIMITS.resultNames],
]

/** Storage an agent may use per UTC day, and the result beyond it. */
const DAILY_LIMITS: readonly [string, string, string][] = [
  ['Entries written to the Hive', String(LIMITS.hiveWritesPerDay), '429 `quota_exceeded`'],
  [
    'Clipboards, keyrings, messages, tasks, Backpacks, keys, tools and every other free write, together',
    formatBytes(LIMITS.storedBytesPerDay),
    '429 `daily_bytes_exceeded`',
  ],
  [
    'The same for what manages a frozen agent too, beyond it',
    formatBytes(LIMITS.storedBytesReserve),
    '429 `daily_bytes_exceeded`; revoking, freezing and removing are never refused',
  ],
  ['Messages to one recipient', String(LIMITS.messagesToOnePerDay), '429 `rate_limited`'],
  [
    'Answers of free calls; the same again for plain writes',
    formatBytes(LIMITS.storedResponseBytesPerDay),
    'not stored: `_meta.kept` is false, a repetition is 410 `answer_not_kept`',
  ],
  ['One answer of a free call', formatBytes(LIMITS.storedResponseMaxBytes), 'not stored, as above'],
]

/** Renders all upper bounds from the constants that define them. */
export function renderLimitsDocument(routes: readonly RegisteredRoute[]): string {
  return `# Limits

Generated from the code by \`npm run docs:reference\`. Input beyond a limit is rejected with a problem that names the
field or the limit; no input is truncated. Amounts of USDC have at most six decimals and are at most
${toUsdc(MAX_CREDIT_AMOUNT)}. The digits that are sent decide, also
those that a double drops. An integer that a JSON number cannot hold exactly is 400: send it as a string where the field takes text.
An object with a name twice is 400.

## Sizes

Larger input is 413 \`body_too_large\`, larger headers are 431 \`headers_too_large\`, both with \`limit_bytes\`. A compressed body is 415. A tool with a larger answer fails and is refunded.

${markdownTable(
  ['Subject', 'Maximum'],
  SIZE_LIMITS.map(([what, bytes]) => [what, formatBytes(bytes)]),
)}

## Counts

Exceeding one is 409 \`limit_reached\`, or 400 within one request.

${markdownTable(
  ['Subject', 'Maximum'],
  COUNT_LIMITS.map(([what, count]) => [what, String(count)]),
)}

## Storage per day

Per agent and UTC day.

${markdownTable(['Subject', 'Maximum', 'Beyond it'], DAILY_LIMITS)}

A free write counts ${formatBytes(LIMITS.keptBytesPerWrite)} (a pulse 512 bytes) and twice its body, an import of tools the same for each tool and its definition, a free call without a daily number of its own ${formatBytes(LIMITS.keptBytesPerFreeCall)}; a refused write does
not count. What is paid is not counted.

## Rates

A window begins with the first request of a caller and takes \`Requests\`; a further one is 429 with \`Retry-After\`, \`RateLimit\` and
\`RateLimit-Policy\`, until the window ends. A request counts once for each started ${formatBytes(LIMITS.countedBodyBytes)} of its body.

${markdownTable(
  ['Bucket', 'Requests', 'Window'],
  Object.entries(TOKEN_BUCKET_RATES).map(([name, { perSecond, burst }]) => [
    `\`${name}\``,
    String(burst),
    `${burst / perSecond} s`,
  ]),
)}

An address gets at most ${LIMITS.ownerLinksPerHour} links by e-mail an hour, to sign in or to be confirmed, and an agent has at most
${LIMITS.confirmationLinksPerDay} addresses confirmed a day. Beyond it no mail is sent: signing in answers as always, naming an address is 429 \`rate_limited\`.

## Fields of requests

The fields of onboarding are the schema \`NewAgent\` of the OpenAPI description. \`[]\` means each entry of a list.

${markdownTable(['Request', 'Field', 'Accepts'], routes.filter(({ hidden }) => !hidden).flatMap(routeFieldRows))}

## Fields of tools

${markdownTable(
  ['Tool', 'Field', 'Accepts'],
  NATIVE_TOOLS.flatMap(({ slug, input }) => boundedFieldRows(`\`${slug}\``, input as SchemaField)),
)}
`
}

function formatBytes(bytes: number): string {
  return bytes >= KIB * KIB ? `${bytes / KIB / KIB} MiB` : `${bytes / KIB} KiB`
}

const routeFieldRows = ({ method, path, body, query }: RegisteredRoute): string[][] => {
  const request = `\`${method} ${path}\``
  return [
    ...boundedFieldRows(request, query as SchemaField),
    ...boundedFieldRows(request, body as SchemaField),
  ]
}

const boundedFieldRows = (owner: string, shape: SchemaField): string[][] =>
  boundedFields('', shape).map(([field, takes]) => [owner, `\`${field}\``, takes])

/** Fields of a schema that have an upper bound, by path. */
function boundedFields(path: string, shape: SchemaField): [string, string][] {
  const { anyOf, oneOf = anyOf ?? [], properties = {}, items, maxItems, minItems } = shape
  const own: [string, string][] = []
  // Operator settings are not numbers here and are skipped.
  if (typeof maxItems === 'number')
    own.push([path, describeCountRange(['entry', 'entries'], minItems, maxItems)])
  if (shape.maximum !== undefined) own.push([path, describeAcceptedSchemaValues(shape)])
  else if (shape.maxLength !== undefined)
    own.push([
      path,
      describeCountRange(CHARACTER_SINGULAR_AND_PLURAL, shape.minLength, shape.maxLength),
    ])
  const at = (name: string) => (path === '' ? name : `${path}.${name}`)
  return [
    ...own,
    ...oneOf.flatMap((one) => boundedFields(path, one)),
    ...(items === undefined ? [] : boundedFields(`${path}[]`, items)),
    ...Object.entries(properties).flatMap(([name, field]) => boundedFields(at(name), field)),
  ]
}
