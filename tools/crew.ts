import Type from 'typebox'
import { invalid } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { WORDED } from '../core/said.ts'
import { withModel } from './availability.ts'
import { demandFields, kindOf, spelledOut, textOf, type CrewInput } from './crew/asked.ts'
import { coldEmail } from './crew/cold-email.ts'
import { competitor } from './crew/competitor.ts'
import { custom, demandPlan } from './crew/custom.ts'
import { CREW_KINDS, FIELDS, KINDS } from './crew/kinds.ts'
import { newsletter } from './crew/newsletter.ts'
import type { Report } from './crew/report.ts'
import { addressOf } from './crew/site.ts'
import { stagesOf } from './crew/stages.ts'
import { defineTool } from './define.ts'

/** How each crew works. */
const CREWS = { competitor, newsletter, cold_email: coldEmail, custom }

const Text = Type.String()
const fields = Object.fromEntries(
  FIELDS.map(({ name, description, minLength, maxLength }) => [
    name,
    Type.Optional(Type.String({ minLength, maxLength, pattern: WORDED, description })),
  ]),
)

export default defineTool({
  slug: 'crew',
  name: 'Crew',
  category: 'intelligence',
  description:
    'Several tools as one piece of work, up to 90 seconds: a competitor report, a newsletter, cold e-mails, or a goal of your own. All of it or nothing is paid.',
  tags: ['crew', 'research', 'writing'],
  useCases: ['Look at a competitor', 'Draft a newsletter', 'Write cold e-mails', 'Research a goal'],
  examples: [KINDS.cold_email.example, KINDS.newsletter.example],
  access: 'paid',
  keyRequired: true,
  unlisted: true,
  price: (input) => KINDS[kindOf(input as CrewInput)].price,
  effect: 'none',
  slow: true,
  timeoutMs: LIMITS.toolDeadlineMs,
  normalise: spelledOut,
  input: Type.Object(
    { type: Type.Optional(Type.Enum([...CREW_KINDS])), ...fields },
    { additionalProperties: false },
  ),
  output: Type.Object({
    type: Type.Enum([...CREW_KINDS]),
    title: Text,
    text: Type.String({ description: 'The whole, as Markdown.' }),
    sections: Type.Array(
      Type.Object({
        heading: Text,
        text: Text,
        citations: Type.Array(Type.Integer({ minimum: 1 })),
      }),
    ),
    sources: Type.Array(
      Type.Object({
        n: Type.Integer({ minimum: 1 }),
        title: Text,
        url: Text,
        source: Type.String({ description: 'Who found it.' }),
        kind: Type.Enum(['page', 'snippet', 'hive']),
      }),
    ),
    method: Type.Enum(['extractive', 'template', 'llm'], {
      description: '`extractive`: sentences of the sources; `template`: a form that was filled in.',
    }),
    subject: Type.Optional(Text),
    emails: Type.Optional(
      Type.Array(
        Type.Object({
          subject: Text,
          body: Text,
          send_after_days: Type.Integer({ minimum: 0 }),
          words: Type.Integer({ minimum: 0 }),
          merge_fields: Type.Array(Text),
          warnings: Type.Array(Text),
        }),
      ),
    ),
    tools: Type.Optional(
      Type.Array(
        Type.Object({
          tool: Text,
          input: Type.Unknown(),
          output: Type.Unknown(),
          waived: Type.Optional(Text),
        }),
      ),
    ),
    stages: Type.Array(Type.Object({ name: Text, ms: Type.Integer({ minimum: 0 }), note: Text })),
    pages_unread: Type.Array(Type.Object({ url: Text, code: Text })),
  }),
  availability({ search, llm }) {
    const answers = withModel('extractive')({ llm })
    return { ...answers, providers: [...search.providers, ...answers.providers] }
  },
  async preflight(given, asking) {
    const input = given as CrewInput
    demandFields(input)
    const kind = kindOf(input)
    if (kind === 'custom') await demandPlan(textOf(input, 'goal'), asking)
    if (kind === 'competitor') {
      const url = addressOf(textOf(input, 'domain'))
      if (!URL.canParse(url))
        throw invalid('/domain', 'must be a host name or the address of a page')
      await asking.egress.preflight({ url, signal: asking.signal })
    }
  },
  async run(given, context) {
    const input = given as CrewInput
    const kind = kindOf(input)
    const stages = stagesOf(context, KINDS[kind].stages.length)
    const report: Report = await CREWS[kind](input, stages)
    const { title, text, sections, sources, method, subject, letters, tools, unread } = report
    return {
      type: kind,
      title,
      text,
      sections: sections.map((one) => ({ ...one, citations: [...one.citations] })),
      sources: [...sources],
      method,
      ...(subject === undefined ? {} : { subject }),
      ...(letters === undefined
        ? {}
        : {
            emails: letters.map((one) => ({
              ...one,
              merge_fields: [...one.merge_fields],
              warnings: [...one.warnings],
            })),
          }),
      ...(tools === undefined ? {} : { tools: [...tools] }),
      stages: [...stages.done],
      pages_unread: [...unread],
    }
  },
})
