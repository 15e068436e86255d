# SPDX-License-Identifier: MIT
dist_man_MANS += man/qwenrun.1 man/qwenrun.ini.5 man/qwenrun-b70.7
