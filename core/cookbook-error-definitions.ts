/** Errors of the cookbook: a part of the table in `errors.ts`. */
export const COOKBOOK_ERROR_DEFINITIONS = {
  recipe_not_found: { status: 404, title: 'There is no such recipe.' },
  badge_not_awarded: { status: 404, title: 'The badge with this number has not been awarded yet.' },
  recipe_not_run: { status: 422, title: 'The agent has not called every tool of this recipe.' },
} as const
