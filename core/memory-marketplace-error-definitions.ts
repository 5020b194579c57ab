/** Errors of the marketplace: a part of the table in `errors.ts`. */
export const MEMORY_MARKETPLACE_ERROR_DEFINITIONS = {
  not_for_sale: {
    status: 403,
    title: 'A memory that was bought, or shared by another agent, cannot be sold.',
  },
  listing_not_found: {
    status: 404,
    title: 'There is no such listing.',
    remedy: { action: 'browse', method: 'GET', url: '/api/marketplace' },
  },
  listing_withdrawn: { status: 409, title: 'Its seller has withdrawn this listing.' },
  listing_not_yours: { status: 403, title: 'Only its seller may withdraw a listing.' },
  own_listing: { status: 403, title: 'An agent cannot buy its own listing.' },
  not_bought: { status: 403, title: 'Only a buyer may rate a listing.' },
  already_rated: { status: 409, title: 'This agent has rated the listing already.' },
} as const
