import Type from 'typebox'
import { invalidInputError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { LETTER_OR_DIGIT_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { llmOptionalToolAvailability } from '../tool-availability.ts'
import {
  assertCrewFields,
  crewKindOf,
  normalizeCrewInput,
  crewFieldText,
  type CrewInput,
} from './crew/crew-input.ts'
import { runColdEmailCrew } from './crew/cold-email-crew.ts'
import { runCompetitorAnalysisCrew } from './crew/competitor-analysis-crew.ts'
import {
  runCrewPlannedFromGoal,
  assertToolOrLlmForCrewGoal,
} from './crew/crew-planned-from-free-text-goal.ts'
import { CREW_KINDS, CREW_FIELDS, CREW_DEFINITIONS } from './crew/crew-definitions.ts'
import { runNewsletterCrew } from './crew/newsletter-crew.ts'
import type { CrewReport } from './crew/crew-report-types.ts'
import { toSiteUrl } from './crew/read-company-site.ts'
import { createCrewStageRunner } from './crew/crew-stages.ts'
import { defineTool } from '../define-tool.ts'

/** The tool `crew`: several tools that work on one goal and write a report. */

/** The runner of each kind of crew. */
const CREW_RUNNERS = {
  competitor: runCompetitorAnalysisCrew,
  newsletter: runNewsletterCrew,
  cold_email: runColdEmailCrew,
  custom: runCrewPlannedFromGoal,
}

const Text = Type.String()
const fields = Object.fromEntries(
  CREW_FIELDS.map(({ name, description, minLength, maxLength }) => [
    name,
    Type.Optional(
      Type.String({ minLength, maxLength, pattern: LETTER_OR_DIGIT_PATTERN, description }),
    ),
  ]),
)

export default defineTool({
  slug: 'crew',
  name: 'Crew',
  category: 'intelligence',
  description:
    'Runs several tools as one piece of work, up to 90 seconds: a competitor report, a newsletter, cold e-mails, or a goal of your own. A failed stage refunds the whole price.',
  tags: ['crew', 'research', 'writing'],
  useCases: ['Look at a competitor', 'Draft a newsletter', 'Write cold e-mails', 'Research a goal'],
  examples: [CREW_DEFINITIONS.cold_email.example, CREW_DEFINITIONS.newsletter.example],
  access: 'paid',
  keyRequired: true,
  unlisted: true,
  price: (input) => CREW_DEFINITIONS[crewKindOf(input as CrewInput)].price,
  effect: 'none',
  slow: true,
  timeoutMs: LIMITS.toolDeadlineMs,
  normalise: normalizeCrewInput,
  input: Type.Object(
    { type: Type.Optional(Type.Enum([...CREW_KINDS])), ...fields },
    { additionalProperties: false },
  ),
  output: Type.Object({
    type: Type.Enum([...CREW_KINDS]),
    title: Text,
    text: Type.String({ description: 'The whole report as Markdown.' }),
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
        source: Type.String({ description: 'The provider that found it.' }),
        kind: Type.Enum(['page', 'snippet', 'hive']),
      }),
    ),
    method: Type.Enum(['extractive', 'template', 'llm'], {
      description: '`extractive`: sentences of the sources; `template`: a filled-in template.',
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
    const answers = llmOptionalToolAvailability('extractive')({ llm })
    return { ...answers, providers: [...search.providers, ...answers.providers] }
  },
  async preflight(given, asking) {
    const input = given as CrewInput
    assertCrewFields(input)
    const kind = crewKindOf(input)
    if (kind === 'custom') await assertToolOrLlmForCrewGoal(crewFieldText(input, 'goal'), asking)
    if (kind === 'competitor') {
      const url = toSiteUrl(crewFieldText(input, 'domain'))
      if (!URL.canParse(url))
        throw invalidInputError('/domain', 'must be a host name or the address of a page')
      await asking.egress.preflight({ url, signal: asking.signal })
    }
  },
  async run(given, context) {
    const input = given as CrewInput
    const kind = crewKindOf(input)
    const stages = createCrewStageRunner(context, CREW_DEFINITIONS[kind].stages.length)
    const report: CrewReport = await CREW_RUNNERS[kind](input, stages)
    const { title, text, sections, sources, method, subject, emails, tools, unread } = report
    return {
      type: kind,
      title,
      text,
      sections: sections.map((one) => ({ ...one, citations: [...one.citations] })),
      sources: [...sources],
      method,
      ...(subject === undefined ? {} : { subject }),
      ...(emails === undefined
        ? {}
        : {
            emails: emails.map((one) => ({
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
