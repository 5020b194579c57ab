import type { CitedStatement } from '../../web/research/cited-answer.ts'
import type { ResearchSource } from '../../web/research/gather-web-sources.ts'
import type { RuleBasedTextAnalyzer } from '../../../providers/text/text-analyzer-port.ts'
import type { CrewInput } from './crew-input.ts'
import { crewFieldText } from './crew-input.ts'
import {
  fetchSocialSentiment,
  describeSocialSentiment,
  readSearchResultPages,
  searchWebQueries,
} from './crew-web-and-social-search.ts'
import type { CrewReport } from './crew-report-types.ts'
import { readCompanySite } from './read-company-site.ts'
import type { CrewStageRunner } from './crew-stages.ts'
import {
  toReportMarkdown,
  writeCitedCrewReportSections,
  type SectionDraft,
} from './write-crew-report-sections.ts'

/** The crew that analyses a competitor. */

const PAGES = 5
const QUOTES = 3
const PRICE_PATTERN =
  /(?:[$€£]\s?\d|\b\d[\d.,]{0,15}\s?(?:usd|usdc|eur|dollars|euros)\b|\bper (?:month|user|seat|year)\b|\bfree (?:plan|trial|tier)\b)/i
/** A sentence below this sentiment is a complaint. */
const COMPLAINT_SENTIMENT = -0.2
/** Sentences per page scored one by one. */
const MAX_SENTENCES_PER_PAGE = 60
const MAX_BRAND_CHARS = 40

/** Reports what a company says of itself, what others say of it, and where it is weak. */
export async function runCompetitorAnalysisCrew(
  input: CrewInput,
  stages: CrewStageRunner,
): Promise<CrewReport> {
  const { context } = stages
  const { text } = context
  const domain = crewFieldText(input, 'domain')
  const site = await stages.run('site', async () => {
    const value = await readCompanySite(domain, context)
    const odd = value.anomalies === 0 ? '' : `, ${value.anomalies} anomalies on them`
    return { value, note: `${value.sources.length} pages of ${domain}${odd}` }
  })
  const brand = findBrand(site.sources[0]?.title ?? '', site.name)
  const [{ sources: outside, unread }, mood] = await Promise.all([
    searchAndReadPages(brand, site.url, stages),
    stages.run('social', async () => {
      const value = await fetchSocialSentiment(brand, context)
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
    const drafts: SectionDraft[] = [
      { heading: 'What it says it does', query: [brand, ...words].join(' '), sourceIndexes: own },
      {
        heading: 'Prices it shows',
        statements: await sentencesOf(sources, own, text, (sentence) =>
          PRICE_PATTERN.test(sentence),
        ),
        fallbackText: 'The pages that were read show no prices.',
      },
      {
        heading: 'What others say of it',
        query: brand,
        sourceIndexes: others,
        fallbackText: 'None of the other pages that were read mentions it.',
      },
      { heading: 'What people say', fixedText: describeSocialSentiment(mood) },
      {
        heading: 'Openings it leaves',
        statements: await complaints(sources, others, text),
        fallbackText: 'The pages that were read contain no complaints about it.',
      },
    ]
    const written = await writeCitedCrewReportSections(drafts, sources, context)
    const title = `Competitor report: ${brand}`
    const value = {
      ...written,
      title,
      text: toReportMarkdown(title, written),
      unread: [...site.unread, ...unread],
    }
    return { value, note: `${written.sections.length} sections, ${written.sources.length} sources` }
  })
}

async function searchAndReadPages(brand: string, own: string, stages: CrewStageRunner) {
  const { context } = stages
  const found = await stages.run('search', async () => {
    const all = await searchWebQueries(
      [`${brand} review`, `${brand} alternatives competitors`],
      context,
    )
    return { value: all, note: `${all.length} results` }
  })
  return stages.run('read', async () => {
    // The company's own pages have been read already.
    const foreign = found.filter(({ url }) => !isSameSite(url, own)).slice(0, PAGES)
    const value = await readSearchResultPages(foreign, context)
    return { value, note: `${value.sources.length} of ${foreign.length} pages` }
  })
}

/** Returns whether a page is on a site's host or a subdomain of it. */
function isSameSite(page: string, site: string): boolean {
  const [{ host }, { host: own }] = [new URL(page), new URL(site)]
  const home = own.replace(/^www\./, '')
  return host === home || host.endsWith(`.${home}`)
}

/** Returns the first part of the page title where it is short, else the name in the domain. */
function findBrand(title: string, name: string): string {
  const head = title.split(/\s[|–—-]\s|[:|]/)[0]?.trim() ?? ''
  return head === '' || head.length > MAX_BRAND_CHARS ? name : head
}

/** Returns the first matching sentences of the sources, at most three. */
async function sentencesOf(
  sources: readonly ResearchSource[],
  indexes: readonly number[],
  text: RuleBasedTextAnalyzer,
  fits: (sentence: string) => boolean,
): Promise<CitedStatement[]> {
  const found: CitedStatement[] = []
  for (const place of indexes) {
    const sentences = await text.sentences(sources[place]?.text ?? '')
    for (const sentence of sentences)
      if (fits(sentence) && found.length < QUOTES) found.push({ text: sentence, sources: [place] })
  }
  return found
}

/** Returns the most negative sentences about the company. */
async function complaints(
  sources: readonly ResearchSource[],
  indexes: readonly number[],
  text: RuleBasedTextAnalyzer,
): Promise<CitedStatement[]> {
  const scored: (CitedStatement & { score: number })[] = []
  for (const place of indexes) {
    const sentences = await text.sentences(sources[place]?.text ?? '')
    for (const sentence of sentences.slice(0, MAX_SENTENCES_PER_PAGE)) {
      const { score } = await text.sentiment(sentence)
      if (score <= COMPLAINT_SENTIMENT) scored.push({ text: sentence, sources: [place], score })
    }
  }
  return scored
    .sort((a, b) => a.score - b.score)
    .slice(0, QUOTES)
    .map(({ score: _felt, ...statement }) => statement)
}
