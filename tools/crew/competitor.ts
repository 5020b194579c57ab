import type { Statement } from '../research/answer.ts'
import type { Source } from '../research/sources.ts'
import type { Text } from '../text/port.ts'
import type { CrewInput } from './asked.ts'
import { textOf } from './asked.ts'
import { heard, moodText, pagesOf, searched } from './look.ts'
import type { Report } from './report.ts'
import { siteOf } from './site.ts'
import type { Stages } from './stages.ts'
import { markdown, writtenUp, type Draft } from './writing.ts'

const PAGES = 5
const QUOTES = 3
const PRICED =
  /(?:[$€£]\s?\d|\b\d[\d.,]{0,15}\s?(?:usd|usdc|eur|dollars|euros)\b|\bper (?:month|user|seat|year)\b|\bfree (?:plan|trial|tier)\b)/i
/** A sentence this far below zero complains. */
const COMPLAINS = -0.2
/** Sentences of a page that are looked at one by one. */
const LOOKED_AT = 60
const MOST_TITLE = 40

/** What a company says of itself, what others say of it, and where it leaves openings. */
export async function competitor(input: CrewInput, stages: Stages): Promise<Report> {
  const { context } = stages
  const { text } = context
  const domain = textOf(input, 'domain')
  const site = await stages.run('site', async () => {
    const value = await siteOf(domain, context)
    const odd = value.anomalies === 0 ? '' : `, ${value.anomalies} anomalies on them`
    return { value, note: `${value.sources.length} pages of ${domain}${odd}` }
  })
  const brand = brandOf(site.sources[0]?.title ?? '', site.name)
  const [{ sources: outside, unread }, mood] = await Promise.all([
    look(brand, site.url, stages),
    stages.run('social', async () => {
      const value = await heard(brand, context)
      return { value, note: `${value.posts.length} posts on ${value.platforms.join(', ')}` }
    }),
  ])
  return stages.run('report', async () => {
    const sources = [...site.sources, ...outside]
    const own = site.sources.map((_, at) => at)
    const others = outside.map((_, at) => site.sources.length + at)
    const first = site.sources[0]
    const themes = first === undefined ? [] : await text.keywords(first.text, 5)
    const words = themes.map((one) => one.text)
    const drafts: Draft[] = [
      { heading: 'What it says it does', query: [brand, ...words].join(' '), from: own },
      {
        heading: 'Prices it shows',
        statements: await sentencesOf(sources, own, text, (sentence) => PRICED.test(sentence)),
        otherwise: 'The pages that were read show no prices.',
      },
      {
        heading: 'What others say of it',
        query: brand,
        from: others,
        otherwise: 'No page of others that was read speaks of it.',
      },
      { heading: 'What people say', ready: moodText(mood) },
      {
        heading: 'Openings it leaves',
        statements: await complaints(sources, others, text),
        otherwise: 'Nobody complains of it in what was read.',
      },
    ]
    const written = await writtenUp(drafts, sources, context)
    const title = `Competitor report: ${brand}`
    const value = {
      ...written,
      title,
      text: markdown(title, written),
      unread: [...site.unread, ...unread],
    }
    return { value, note: `${written.sections.length} sections, ${written.sources.length} sources` }
  })
}

async function look(brand: string, own: string, stages: Stages) {
  const { context } = stages
  const found = await stages.run('search', async () => {
    const all = await searched([`${brand} review`, `${brand} alternatives competitors`], context)
    return { value: all, note: `${all.length} results` }
  })
  return stages.run('read', async () => {
    // What it says of itself has been read already.
    const foreign = found.filter(({ url }) => !isOf(url, own)).slice(0, PAGES)
    const value = await pagesOf(foreign, context)
    return { value, note: `${value.sources.length} of ${foreign.length} pages` }
  })
}

/** Whether a page belongs to the site of another: to its host, or to one below it. */
function isOf(page: string, site: string): boolean {
  const [{ host }, { host: own }] = [new URL(page), new URL(site)]
  const home = own.replace(/^www\./, '')
  return host === home || host.endsWith(`.${home}`)
}

/** The head of the first page's title where it is short, else the name in the domain. */
function brandOf(title: string, name: string): string {
  const head = title.split(/\s[|–—-]\s|[:|]/)[0]?.trim() ?? ''
  return head === '' || head.length > MOST_TITLE ? name : head
}

/** The first sentences of some sources that fit, at most three. */
async function sentencesOf(
  sources: readonly Source[],
  places: readonly number[],
  text: Text,
  fits: (sentence: string) => boolean,
): Promise<Statement[]> {
  const found: Statement[] = []
  for (const place of places) {
    const sentences = await text.sentences(sources[place]?.text ?? '')
    for (const sentence of sentences)
      if (fits(sentence) && found.length < QUOTES) found.push({ text: sentence, sources: [place] })
  }
  return found
}

/** The sentences of others with the worst feeling in them. */
async function complaints(
  sources: readonly Source[],
  places: readonly number[],
  text: Text,
): Promise<Statement[]> {
  const felt: (Statement & { score: number })[] = []
  for (const place of places) {
    const sentences = await text.sentences(sources[place]?.text ?? '')
    for (const sentence of sentences.slice(0, LOOKED_AT)) {
      const { score } = await text.sentiment(sentence)
      if (score <= COMPLAINS) felt.push({ text: sentence, sources: [place], score })
    }
  }
  return felt
    .sort((a, b) => a.score - b.score)
    .slice(0, QUOTES)
    .map(({ score: _felt, ...statement }) => statement)
}
