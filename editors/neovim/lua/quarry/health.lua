--- `:checkhealth quarry`.

local M = {}

--- Later versions have other names.
local health = vim.health or {}
local start = health.start or health.report_start or require("health").report_start
local ok = health.ok or health.report_ok or require("health").report_ok
local warn = health.warn or health.report_warn or require("health").report_warn
local error = health.error or health.report_error or require("health").report_error

function M.check()
  start("quarry")
  if vim.fn.has("nvim-0.7") == 1 then
    ok("Neovim is new enough")
  else
    error("Neovim 0.7 or newer is needed")
  end
  local program = require("quarry").command()[1]
  if vim.fn.executable(program) ~= 1 then
    return error(program .. " is not on the PATH", { "Install quarry, or name it: require('quarry').setup({ cmd = { 'path/of/quarry', 'lsp' } })" })
  end
  local version = vim.fn.system({ program, "--version" })
  if vim.v.shell_error ~= 0 or not vim.startswith(version, "quarry ") then
    return error(program .. " is not quarry: " .. vim.trim(version))
  end
  ok(vim.fn.exepath(program) .. ": " .. vim.trim(version))
  local status = vim.fn.system({ program, "status" })
  if vim.v.shell_error == 2 then
    warn(vim.trim(status))
  else
    ok("index of the current directory:\n" .. vim.trim(status))
  end
end

return M
