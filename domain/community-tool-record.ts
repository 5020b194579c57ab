import { asMicros, type Micros } from '../core/money.ts'

/** Tools that agents sell to others: their record, their address and their share of the price. */

/** The states of a community tool. Others can call one on probation or listed. */
export const COMMUNITY_TOOL_STATES = [
  'pending',
  'probation',
  'listed',
  'suspended',
  'retired',
] as const
export type CommunityToolState = (typeof COMMUNITY_TOOL_STATES)[number]

/** The builder's request for the mark `verified`, and what the operator said. */
export type CommunityToolVerificationRequest = 'none' | 'asked' | 'verified' | 'refused'

/** Calls that count for the quality of a tool, since a time. */
export interface MeasuredToolQuality {
  readonly since: number
  readonly calls: number
  readonly successes: number
  /** Different agents and wallets that paid. */
  readonly payers: number
  /** Different agents and wallets whose calls the builder has failed. */
  readonly failingPayers: number
}

/** What measured calls decide. */
export const COMMUNITY_TOOL_QUALITY_THRESHOLDS = {
  /** A tool on probation is listed after so many calls of so many payers. */
  listedAfterCalls: 10,
  listedAfterPayers: 3,
  listedAbovePercent: 90,
  /** From so many calls on a tool is suspended below this rate. */
  judgedAfterCalls: 50,
  suspendedBelowPercent: 50,
  /** And only if it has failed so many payers: the input of one may be the cause (decision 362). */
  suspendedFromPayers: 3,
  /** Refused inputs count from so many payers on, of each of whom half of the calls were refused (decision 386). */
  refusedPayers: 5,
} as const

/** A field of the input that becomes a part of a REST request. */
export interface RestParameter {
  readonly field: string
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  /** Of OpenAPI; absent in tools that were imported before styles were kept. */
  readonly style?: RestParameterStyle
  /** Members are parameters of their own, or `name=value`. */
  readonly isExploded: boolean
  /** The value is sent as JSON text. */
  readonly isJson?: boolean
  /** Reserved characters of a query stay as they are. */
  readonly isReservedKept?: boolean
}

export const REST_PARAMETER_STYLES = {
  path: ['simple', 'label', 'matrix'],
  query: ['form', 'spaceDelimited', 'pipeDelimited', 'deepObject'],
  header: ['simple'],
} as const
export type RestParameterStyle =
  (typeof REST_PARAMETER_STYLES)[keyof typeof REST_PARAMETER_STYLES][number]

/** How calls reach the builder; a new kind of address is a new member. */
export type CommunityToolEndpoint =
  | {
      /** The input is posted as JSON; the answer is a JSON object. */
      readonly kind: 'http-json'
      readonly url: string
    }
  | {
      /** One operation of a REST service. */
      readonly kind: 'rest-operation'
      /** The address that paths are appended to. */
      readonly url: string
      readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
      /** As in OpenAPI: `/pets/{petId}`. */
      readonly path: string
      readonly parameters: readonly RestParameter[]
      /** Whether the field `body` is sent as JSON. */
      readonly hasBody: boolean
    }
  | {
      /** One tool of an MCP server. */
      readonly kind: 'mcp-tool'
      readonly url: string
      readonly tool: string
    }

/** What the builder says of the tool. */
export interface CommunityToolDefinition {
  readonly name: string
  readonly description: string
  readonly category: string
  /** JSON Schema 2020-12, as the builder gave it. */
  readonly inputSchema: Readonly<Record<string, unknown>>
  readonly outputSchema: Readonly<Record<string, unknown>>
  /** An input that works, for the catalogue and for the station's own checks; null without one. */
  readonly example: Readonly<Record<string, unknown>> | null
  readonly forward: CommunityToolEndpoint
}

/** A community tool, as the catalogue and the call path read it. */
export interface CommunityToolRecord {
  readonly toolId: string
  readonly slug: string
  readonly builderId: string
  /** The name of the builder's agent when the tool was registered. */
  readonly builderName: string
  /** Whether public places name the builder. */
  readonly isBuilderPublic: boolean
  /** Pseudonym of the address that registered it: calls from there do not count for its quality. */
  readonly builderVisitor: string
  readonly state: CommunityToolState
  readonly definition: CommunityToolDefinition
  readonly price: Micros
  readonly nextPrice: { readonly price: Micros; readonly from: number } | null
  readonly acceptsPromo: boolean
  readonly review: CommunityToolVerificationRequest
  readonly reviewReason: string | null
  readonly secretNumber: number
  readonly measuredFrom: number
  readonly registeredAt: number
  /** Of its newest change; sorts by time. */
  readonly changeId: string
}

/** The aggregate of a tool. The prefix keeps slugs apart from other ids. */
export const communityToolAggregateId = (slug: string): string => `tool:${slug}`

/** A tool of a builder, as its limits read it. */
export type OwnCommunityTool = Pick<CommunityToolRecord, 'slug' | 'toolId' | 'state'>

/** What the list of a builder shows of a tool. */
export interface ListedOwnTool extends Pick<
  CommunityToolRecord,
  'slug' | 'state' | 'price' | 'acceptsPromo' | 'review' | 'reviewReason'
> {
  readonly name: string
  readonly registeredAt: Date
}

const BUILDER_SHARE_PERCENT = 60n
/** The builder's part of a price; 18 % go to the treasury, the rest to the station. */
export const builderShareOf = (price: Micros): Micros =>
  asMicros((price * BUILDER_SHARE_PERCENT) / 100n)

/** Whether others can call a tool in this state. */
export const isCallableCommunityToolState = (state: CommunityToolState): boolean =>
  state === 'probation' || state === 'listed'

/** Nodes tell each other the slug of a tool that has changed. */
export const COMMUNITY_TOOLS_TOPIC = 'community_tools'

/** Fields of a request that belong to the station. */
export const RESERVED_COMMUNITY_INPUT_FIELDS = ['tool', 'dry_run', 'params'] as const

/** Fields that the station adds to every answer of a tool. */
export const RESERVED_COMMUNITY_OUTPUT_FIELDS = [
  'echo_recycled',
  'ghost_protocol',
  'hive',
  '_meta',
] as const
