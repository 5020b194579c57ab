import { CREW_PRICES } from '../../../domain/pricing.ts'

/** The kinds of crews: fields, prices and stages. */

export type CrewKind = 'competitor' | 'newsletter' | 'cold_email' | 'custom'

interface CrewField {
  readonly name: string
  readonly description: string
  readonly minLength: number
  readonly maxLength: number
  /** Accepted synonyms. */
  readonly aliases: readonly string[]
}

interface CrewStageSpec {
  readonly name: string
  /** Stages that must finish first. */
  readonly after: readonly string[]
  readonly does: string
}

/** A kind of crew: its fields, price and stage graph. */
interface CrewDefinition {
  readonly description: string
  readonly price: (typeof CREW_PRICES)[CrewKind]
  readonly fields: readonly CrewField[]
  readonly stages: readonly CrewStageSpec[]
  /** Its writing method without a language model, and with one. */
  readonly methods: readonly [string, string]
  readonly example: Readonly<Record<string, string>>
}

const field = (
  name: string,
  description: string,
  [minLength, maxLength]: readonly [number, number],
  ...aliases: string[]
): CrewField => ({ name, description, minLength, maxLength, aliases })

export const CREW_DEFINITIONS: Readonly<Record<CrewKind, CrewDefinition>> = {
  competitor: {
    description:
      'A report on a company by its domain: what its pages say, its prices, what others and people say of it, and where it leaves openings.',
    price: CREW_PRICES.competitor,
    fields: [field('domain', 'A host name, or the address of a page.', [3, 300])],
    stages: [
      {
        name: 'site',
        after: [],
        does: 'Reads the first page of the domain and up to three others',
      },
      { name: 'search', after: ['site'], does: 'Searches the web twice' },
      { name: 'social', after: ['site'], does: 'Asks open platforms what is said' },
      { name: 'read', after: ['search'], does: 'Reads up to five of the pages found' },
      { name: 'report', after: ['social', 'read'], does: 'Writes the report, with its sources' },
    ],
    methods: ['extractive', 'llm'],
    example: { type: 'competitor', domain: 'example.com' },
  },
  newsletter: {
    description:
      'An issue of a newsletter on a topic for an audience: subject, stories with their sources, and what people say.',
    price: CREW_PRICES.newsletter,
    fields: [
      field('topic', 'What it is about.', [3, 200]),
      field('targetAudience', 'Who reads it.', [3, 300], 'target_audience'),
    ],
    stages: [
      { name: 'search', after: [], does: 'Searches the web twice' },
      { name: 'social', after: [], does: 'Asks open platforms what is said' },
      { name: 'read', after: ['search'], does: 'Reads up to six of the pages found' },
      { name: 'select', after: ['read'], does: 'Orders the stories by topic and audience' },
      { name: 'write', after: ['select', 'social'], does: 'Writes the issue, with its sources' },
    ],
    methods: ['extractive', 'llm'],
    example: {
      type: 'newsletter',
      topic: 'Account abstraction gas fees',
      targetAudience: 'Developers of smart contract wallets',
    },
  },
  cold_email: {
    description:
      'Three cold e-mails to an ideal customer about an offer, with what has to be filled in.',
    price: CREW_PRICES.cold_email,
    fields: [
      field('icpDescription', 'Who the ideal customer is.', [10, 500], 'icp_description'),
      field('offerDescription', 'What is offered.', [10, 500], 'offer_description'),
    ],
    stages: [
      { name: 'profile', after: [], does: 'Reads what matters to the customer and in the offer' },
      { name: 'write', after: ['profile'], does: 'Writes three letters' },
      {
        name: 'check',
        after: ['write'],
        does: 'Counts words, links and words that filters dislike',
      },
    ],
    methods: ['template', 'llm'],
    example: {
      type: 'cold_email',
      icpDescription: 'Heads of operations at small logistics companies who plan routes by hand',
      offerDescription: 'A route planner that cuts fuel costs by a tenth and is set up in a day',
    },
  },
  custom: {
    description:
      'A goal in plain words: the planner chooses up to four tools that only read, runs them side by side and writes up what they found.',
    price: CREW_PRICES.custom,
    fields: [field('goal', 'What is to be found out.', [10, 500])],
    stages: [
      { name: 'plan', after: [], does: 'Chooses the tools and what to ask them' },
      { name: 'tool:<slug>', after: ['plan'], does: 'Runs a tool; one stage for each' },
      {
        name: 'write',
        after: ['tool:<slug>'],
        does: 'Writes up what they found, with its sources',
      },
    ],
    methods: ['extractive', 'llm'],
    example: { type: 'custom', goal: 'Research how account abstraction pays gas fees' },
  },
}

export const CREW_KINDS = Object.keys(CREW_DEFINITIONS) as CrewKind[]

/** The distinct fields of all crews. */
export const CREW_FIELDS: readonly CrewField[] = CREW_KINDS.flatMap(
  (kind) => CREW_DEFINITIONS[kind].fields,
)
