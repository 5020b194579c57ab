import { ServiceError } from '../../core/errors.ts'
import { extracted } from '../research/answer.ts'
import type { Source } from '../research/sources.ts'
import type { Text } from '../text/port.ts'
import { textOf, type CrewInput } from './asked.ts'
import { heard, moodText, pagesOf, searched } from './look.ts'
import type { Report } from './report.ts'
import type { Stages } from './stages.ts'
import { markdown, writtenUp, type Draft } from './writing.ts'

const PAGES = 6
const STORIES = 5
/** So much of a page is compared with what the audience wants. */
const COMPARED = 4_000

/** An issue on a topic for an audience, each story with its source. */
export async function newsletter(input: CrewInput, stages: Stages): Promise<Report> {
  const { context } = stages
  const topic = textOf(input, 'topic')
  const audience = textOf(input, 'targetAudience')
  const [{ sources, unread }, mood] = await Promise.all([
    look(topic, stages),
    stages.run('social', async () => {
      const value = await heard(topic, context)
      return { value, note: `${value.posts.length} posts on ${value.platforms.join(', ')}` }
    }),
  ])
  const stories = await stages.run('select', async () => {
    const value = await chosen(topic, audience, sources, context.text)
    if (value.length === 0) throw new ServiceError('no_evidence', { topic })
    return { value, note: `${value.length} stories of ${sources.length} sources` }
  })
  return stages.run('write', async () => {
    const [lead] = await context.text.keywords(stories.map(({ title }) => title).join('. '), 1)
    const drafts: Draft[] = [
      {
        heading: 'In this issue',
        ready: `For ${audience}: ${stories.length === 1 ? 'one story' : `${stories.length} stories`} on ${topic}.`,
      },
      ...stories.map((story, at): Draft => {
        return { heading: story.title === '' ? story.url : story.title, query: topic, from: [at] }
      }),
      { heading: 'What people say', ready: moodText(mood) },
    ]
    const written = await writtenUp(drafts, stories, context)
    const headline =
      lead === undefined || topic.toLowerCase().includes(lead.text) ? '' : `: ${lead.text}`
    const subject = `${topic[0]?.toUpperCase() ?? ''}${topic.slice(1)}${headline}`
    const value = { ...written, title: subject, subject, text: markdown(subject, written), unread }
    return { value, note: `${written.sections.length} sections` }
  })
}

async function look(topic: string, stages: Stages) {
  const { context } = stages
  const found = await stages.run('search', async () => {
    const words = await context.text.keywords(topic, 4)
    const value = await searched(
      [topic, words.map((one) => one.text).join(' ')].filter(isSaid),
      context,
    )
    return { value, note: `${value.length} results` }
  })
  return stages.run('read', async () => {
    const wanted = found.slice(0, PAGES)
    const value = await pagesOf(wanted, context)
    return { value, note: `${value.sources.length} of ${wanted.length} pages` }
  })
}

const isSaid = (query: string): boolean => query !== ''

/** The sources that speak of the topic, those first that are nearest to it and to the audience. */
async function chosen(
  topic: string,
  audience: string,
  sources: readonly Source[],
  text: Text,
): Promise<Source[]> {
  const wanted = await text.vector(`${topic}. ${audience}`)
  const near: { source: Source; score: number }[] = []
  for (const source of sources) {
    if ((await extracted(topic, [source], text)).length === 0) continue
    const vector = await text.vector(`${source.title}. ${source.text.slice(0, COMPARED)}`)
    near.push({ source, score: text.similarity(wanted, vector) })
  }
  return near
    .sort((a, b) => b.score - a.score)
    .slice(0, STORIES)
    .map(({ source }) => source)
}
