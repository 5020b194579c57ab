import { LIMITS, RATES } from '../core/limits.ts'
import { toUsdc } from '../core/money.ts'
import { LARGEST_BUDGET } from '../core/prices.ts'
import { CHARACTERS, countOf, nounOf, type Shape } from '../core/shape.ts'
import { nativeTools } from '../tools/catalogue.ts'
import { table } from './generated.ts'
import type { Route } from './routes.ts'

type Field = Shape & { readonly items?: Field }

const KIB = 1024

/** What is larger is 413 `body_too_large` with `limit_bytes`. */
const SIZES: readonly [string, number][] = [
  ['A body', LIMITS.bodyBytes],
  ['A body of a pipeline or of `code_sandbox`', LIMITS.largeBodyBytes],
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

/** What is more is 409 `limit_reached`, or 400 where it is one request. */
const COUNTS: readonly [string, number][] = [
  ['API keys', LIMITS.keys],
  ['Active tasks', LIMITS.activeTasks],
  ['Backpacks', LIMITS.backpacks],
  ['Entries of a clipboard', LIMITS.clipboardEntries],
  ['Secrets of a keyring', LIMITS.keyringSecrets],
  ['Schedules', LIMITS.schedules],
  ['Webhooks', LIMITS.webhooks],
  ['Watches of the Hive', LIMITS.hiveWatches],
  ['Members of a fleet', LIMITS.fleetMembers],
  ['Streams of a key', LIMITS.streamsPerKey],
  ['Streams of an agent', LIMITS.streamsPerAgent],
  ['Channels of a stream', LIMITS.streamChannels],
  ['Calls of a pipeline', LIMITS.pipelineCalls],
  ['Rows of a page', LIMITS.pageMax],
  ['Levels of JSON', LIMITS.jsonDepth],
]

/** What an agent may have the station keep in a UTC day, and what becomes of more. */
const DAILY: readonly [string, string, string][] = [
  ['Entries written to the Hive', String(LIMITS.hiveWritesPerDay), '429 `quota_exceeded`'],
  [
    'Clipboards and keyrings, together',
    sized(LIMITS.storedBytesPerDay),
    '429 `daily_bytes_exceeded`',
  ],
  [
    'Answers of free calls; as much of plain writes',
    sized(LIMITS.keptBytesPerDay),
    'given once: `_meta.kept` is false, a repetition is 410 `answer_not_kept`',
  ],
  ['One answer of a free call', sized(LIMITS.keptAnswerBytes), 'given once, as above'],
]

/** The document of all upper bounds, from the code that holds them. */
export function limits(routes: readonly Route[]): string {
  return `# Limits

Generated from the code by \`npm run docs:reference\`. Every bound is answered by a problem that names the
field or the limit; nothing is cut off in silence. Amounts of USDC have at most six decimals and are at most
${toUsdc(LARGEST_BUDGET)}. An integer that a JSON number cannot hold exactly is 400: send it as a string.

## Sizes

More is 413 \`body_too_large\` with \`limit_bytes\`; a tool whose answer is larger fails and is refunded.

${table(
  ['What', 'At most'],
  SIZES.map(([what, bytes]) => [what, sized(bytes)]),
)}

## How many

More is 409 \`limit_reached\`; within one request it is 400.

${table(
  ['What', 'At most'],
  COUNTS.map(([what, count]) => [what, String(count)]),
)}

## What is kept, a day

For each agent; days begin at midnight UTC.

${table(['What', 'At most', 'More is'], DAILY)}

## How often

Token buckets: a bucket is full again after its size divided by its rate. Beyond them 429 with
\`Retry-After\`, \`RateLimit\` and \`RateLimit-Policy\`.

${table(
  ['Bucket', 'A second', 'At once'],
  Object.entries(RATES).map(([name, { perSecond, burst }]) => [
    `\`${name}\``,
    String(Number(perSecond.toPrecision(3))),
    String(burst),
  ]),
)}

## Fields of requests

What onboarding takes is the schema \`NewAgent\` of the OpenAPI description. \`[]\` stands for each entry of a list.

${table(['Request', 'Field', 'Takes'], routes.filter(({ hidden }) => !hidden).flatMap(rowsOf))}

## Fields of tools

${table(
  ['Tool', 'Field', 'Takes'],
  nativeTools.flatMap(({ slug, input }) => rows(`\`${slug}\``, input as Field)),
)}
`
}

function sized(bytes: number): string {
  return bytes >= KIB * KIB ? `${bytes / KIB / KIB} MiB` : `${bytes / KIB} KiB`
}

const rowsOf = ({ method, path, body, query }: Route): string[][] => {
  const request = `\`${method} ${path}\``
  return [...rows(request, query as Field), ...rows(request, body as Field)]
}

const rows = (owner: string, shape: Field): string[][] =>
  bounded('', shape).map(([field, takes]) => [owner, `\`${field}\``, takes])

/** The fields inside a schema that have an upper bound, by their path. */
function bounded(path: string, shape: Field): [string, string][] {
  const { anyOf, oneOf = anyOf ?? [], properties = {}, items, maxItems, minItems } = shape
  const own: [string, string][] = []
  // Settings of the operator are no numbers here.
  if (typeof maxItems === 'number')
    own.push([path, countOf(['entry', 'entries'], minItems, maxItems)])
  if (shape.maximum !== undefined) own.push([path, nounOf(shape)])
  else if (shape.maxLength !== undefined)
    own.push([path, countOf(CHARACTERS, shape.minLength, shape.maxLength)])
  const at = (name: string) => (path === '' ? name : `${path}.${name}`)
  return [
    ...own,
    ...oneOf.flatMap((one) => bounded(path, one)),
    ...(items === undefined ? [] : bounded(`${path}[]`, items)),
    ...Object.entries(properties).flatMap(([name, field]) => bounded(at(name), field)),
  ]
}
