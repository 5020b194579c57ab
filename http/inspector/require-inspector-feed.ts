import type { InspectionFeed } from '../../actors/inspection/inspection-feed.ts'
import { ServiceError } from '../../core/errors.ts'

/** Returns the feed of the inspector; throws 404 where `INSPECTOR` is off. */
export function requireInspectorFeed(services: {
  readonly inspection: InspectionFeed | null
}): InspectionFeed {
  if (services.inspection === null) throw new ServiceError('not_found')
  return services.inspection
}
