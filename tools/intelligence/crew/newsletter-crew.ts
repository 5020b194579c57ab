import { ServiceError } from '../../../core/errors.ts'
import { extractRelevantStatementsFromSources } from '../../web/research/cited-answer.ts'
import type { ResearchSource } from '../../web/research/gather-web-sources.ts'
import type { RuleBasedTextAnalyzer } from '../../../providers/text/text-analyzer-port.ts'
import { crewFieldText, type CrewInput } from './crew-input.ts'
import {
  fetchSocialSentiment,
  describeSocialSentiment,
  readSearchResultPages,
  searchWebQueries,
} from './crew-web-and-social-search.ts'
import type { CrewReport } from './crew-report-types.ts'
import type { CrewStageRunner } from './crew-stages.ts'
import {
  toReportMarkdown,
  writeCitedCrewReportSections,
  type SectionDraft,
} from './write-crew-report-sections.ts'

/** The crew that writes a newsletter issue. */

const PAGES = 6
const STORIES = 5
/** Characters of a page compared with the audience's interests. */
const MAX_COMPARED_CHARS = 4_000

/** Writes an issue on a topic for an audience; each story has its source. */
export async function runNewsletterCrew(
  input: CrewInput,
  stages: CrewStageRunner,
): Promise<CrewReport> {
  const { context } = stages
  const topic = crewFieldText(input, 'topic')
  const audience = crewFieldText(input, 'targetAudience')
  const [{ sources, unread }, mood] = await Promise.all([
    searchAndReadPages(topic, stages),
    stages.run('social', async () => {
      const value = await fetchSocialSentiment(topic, context)
      return { value, note: `${value.posts.length} posts on ${value.platforms.join(', ')}` }
    }),
  ])
  const stories = await stages.run('select', async () => {
    const value = await selectStories(topic, audience, sources, context.text)
    if (value.length === 0) throw new ServiceError('no_evidence', { topic })
    return { value, note: `${value.length} stories of ${sources.length} sources` }
  })
  return stages.run('write', async () => {
    const [lead] = await context.text.keywords(stories.map(({ title }) => title).join('. '), 1)
    const drafts: SectionDraft[] = [
      {
        heading: 'In this issue',
        fixedText: `For ${audience}: ${stories.length === 1 ? 'one story' : `${stories.length} stories`} on ${topic}.`,
      },
      ...stories.map((story, at): SectionDraft => {
        return {
          heading: story.title === '' ? story.url : story.title,
          query: topic,
          sourceIndexes: [at],
        }
      }),
      { heading: 'What people say', fixedText: describeSocialSentiment(mood) },
    ]
    const written = await writeCitedCrewReportSections(drafts, stories, context)
    const headline =
      lead === undefined || topic.toLowerCase().includes(lead.text) ? '' : `: ${lead.text}`
    const subject = `${topic[0]?.toUpperCase() ?? ''}${topic.slice(1)}${headline}`
    const value = {
      ...written,
      title: subject,
      subject,
      text: toReportMarkdown(subject, written),
      unread,
    }
    return { value, note: `${written.sections.length} sections` }
  })
}

async function searchAndReadPages(topic: string, stages: CrewStageRunner) {
  const { context } = stages
  const found = await stages.run('search', async () => {
    const words = await context.text.keywords(topic, 4)
    const value = await searchWebQueries(
      [topic, words.map((one) => one.text).join(' ')].filter(isNotEmpty),
      context,
    )
    return { value, note: `${value.length} results` }
  })
  return stages.run('read', async () => {
    const wanted = found.slice(0, PAGES)
    const value = await readSearchResultPages(wanted, context)
    return { value, note: `${value.sources.length} of ${wanted.length} pages` }
  })
}

const isNotEmpty = (query: string): boolean => query !== ''

/** Selects the sources about the topic, closest to topic and audience first. */
async function selectStories(
  topic: string,
  audience: string,
  sources: readonly ResearchSource[],
  text: RuleBasedTextAnalyzer,
): Promise<ResearchSource[]> {
  const wanted = await text.vector(`${topic}. ${audience}`)
  const near: { source: ResearchSource; score: number }[] = []
  for (const source of sources) {
    if ((await extractRelevantStatementsFromSources(topic, [source], text)).length === 0) continue
    const vector = await text.vector(`${source.title}. ${source.text.slice(0, MAX_COMPARED_CHARS)}`)
    near.push({ source, score: text.similarity(wanted, vector) })
  }
  return near
    .sort((a, b) => b.score - a.score)
    .slice(0, STORIES)
    .map(({ source }) => source)
}
