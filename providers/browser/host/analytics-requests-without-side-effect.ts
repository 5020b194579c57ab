/** Recognises requests to analytics collectors, which count as no side effect. */

/**
 * Hosts that only record visits. Hosts with any other API are left out: a request to them may be what the
 * caller wants.
 */
const ANALYTICS_HOSTS = [
  'google-analytics.com',
  'analytics.google.com',
  'googletagmanager.com',
  'doubleclick.net',
  'clarity.ms',
  'bat.bing.com',
  'mc.yandex.ru',
  'cloudflareinsights.com',
  'hotjar.com',
  'hotjar.io',
  'heapanalytics.com',
  'api.segment.io',
  'api.mixpanel.com',
  'api-js.mixpanel.com',
  'api-eu.mixpanel.com',
  'api.amplitude.com',
  'api2.amplitude.com',
  'api.eu.amplitude.com',
  'i.posthog.com',
  'rs.fullstory.com',
  'nr-data.net',
  'browser-intake-datadoghq.com',
  'browser-intake-datadoghq.eu',
  'ingest.sentry.io',
  'ingest.us.sentry.io',
  'ingest.de.sentry.io',
]

/** Returns whether a page sends a request to a collector; a collector's own pages are exempt. */
export function isAnalyticsRequest(url: string, page: string): boolean {
  const [to, from] = [hostOf(url), hostOf(page)]
  return ANALYTICS_HOSTS.some((site) => isHostWithin(to, site) && !isHostWithin(from, site))
}

const isHostWithin = (host: string, site: string): boolean =>
  host === site || host.endsWith(`.${site}`)

const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).hostname : '')
